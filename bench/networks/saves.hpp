// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures what checkpoints cost a training run: saving at once, saving in the background, and
// loading.

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
