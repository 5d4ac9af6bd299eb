// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures the speed of every scheme relative to BLAS on all cores, for six shapes.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_ceiling(CLI::App& app, Action& action);

}  // namespace bench
