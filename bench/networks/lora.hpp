// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Alternately measures a step of a transformer with LoRA and a step of the same transformer that
// trains all weights, and counts the gradients and moments of both.

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
