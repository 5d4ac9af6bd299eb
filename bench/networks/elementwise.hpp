// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures element-wise functions on one core: activations forward and backward, and steps of
// optimizers, each beside a plain loop that reads and writes as many matrices, and only adds.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_elementwise(CLI::App& app, Action& action);

}  // namespace bench
