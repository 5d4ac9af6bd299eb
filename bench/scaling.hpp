// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The same product on more and more ranks: strong scaling keeps its size, weak scaling keeps the
// work of each rank.

#include "job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_scaling(CLI::App& app, Action& action);

}  // namespace bench
