// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures what checkpoints cost a training run: save, save_in_background and load.

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
