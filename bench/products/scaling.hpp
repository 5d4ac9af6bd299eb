// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One product on more and more ranks. Strong scaling keeps its size, weak scaling keeps the work of
// each rank. It is measured, or the simulator predicts it for a machine that a file describes.

#include <cubist/machine/machine.hpp>

#include "common/job.hpp"
#include "products/matmul.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// Simulates one run of a product. Each rank has the setting's threads. BLAS's time follows from
/// the machine's table for the whole product, on all cores that the ranks have.
[[nodiscard]] Row simulate_matmul(const MatmulTask& task, const cubist::Machine& machine);

/// Adds the subcommand, which sets `action`.
void add_scaling(CLI::App& app, Action& action);

}  // namespace bench
