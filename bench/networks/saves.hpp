// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What checkpoints cost a training run: saved at once, in the background, and loaded.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_saves(CLI::App& app, Action& action);

}  // namespace bench
