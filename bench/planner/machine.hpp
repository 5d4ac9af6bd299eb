// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures the figures of this machine for the planner and the simulator: rates of products by
// shape, memory, and links.

#include <cstddef>
#include <optional>

#include <cubist/machine/machine.hpp>

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// The value of `Machine::nodes_sharing` where all nodes are on one machine, however many there
/// are.
inline constexpr int most_nodes_sharing = 1024;

struct MachineTask
{
  int ranks = 1;
  int nodes = 1;
  int machines = 1;            // each may run several nodes
  std::size_t largest = 0;     // size of the largest products; 0: one rate for all shapes
  std::size_t gpu_memory = 0;  // bytes of one GPU, if ranks have GPUs
};

/// The bytes of this host's memory.
[[nodiscard]] std::size_t memory_of_host();

/// Runs the benchmark. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<cubist::Machine> machine_on(const Job& job, const MachineTask& task);
[[nodiscard]] std::optional<cubist::Machine> machine_on_mpi(const MachineTask& task);

/// Adds the subcommand, which sets `action`.
void add_machine(CLI::App& app, Action& action);

}  // namespace bench
