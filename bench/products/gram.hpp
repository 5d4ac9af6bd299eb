// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures X X^T with half the operations beside gemm: one core uses syrk and mirror, and ranks on
// threads use DistGram on the best grid.

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Adds the subcommand, which sets `action`.
void add_gram(CLI::App& app, Action& action);

}  // namespace bench
