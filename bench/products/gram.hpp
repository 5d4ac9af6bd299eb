// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// X X^T by half of the operations, beside gemm: one core by syrk and mirror, and ranks as threads
// by DistGram, on the best grid.

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
