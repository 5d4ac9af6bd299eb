// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A step of a transformer with LoRA beside a step of the same one that trains all its weights, in
// turns, and the gradients and moments of both.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_lora(CLI::App& app, Action& action);

}  // namespace bench
