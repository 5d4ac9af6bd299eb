// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The same product on more and more ranks: strong scaling keeps its size, weak scaling keeps the
// work of each rank. Measured, or predicted by the simulator for a machine that a file describes.

#include <cubist/machine/machine.hpp>

#include "common/job.hpp"
#include "products/matmul.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// The row of a product in simulated time, one run of it. Each rank has the setting's threads; BLAS
/// is the rate of the whole product by the machine's table, on all cores that the ranks have.
[[nodiscard]] Row simulate_matmul(const MatmulTask& task, const cubist::Machine& machine);

/// Adds the subcommand, which sets `action`.
void add_scaling(CLI::App& app, Action& action);

}  // namespace bench
