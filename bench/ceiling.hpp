// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How near every scheme comes to BLAS on all cores, for six shapes.

#include "job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_ceiling(CLI::App& app, Action& action);

}  // namespace bench
