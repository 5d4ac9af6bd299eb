// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The figures of the machine that runs this: rates of products over shapes, memory and links, for
// the planner and the simulator.

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

/// As `Machine::nodes_sharing`, where all nodes are on one machine, however many they are.
inline constexpr int most_nodes_sharing = 1024;

struct MachineTask
{
  int ranks = 1;
  int nodes = 1;
  int machines = 1;            // of which each may run several nodes
  std::size_t largest = 0;     // size of the products; 0: one rate for all shapes
  std::size_t gpu_memory = 0;  // bytes of a GPU, if each rank has one
};

/// Bytes of memory of this host.
[[nodiscard]] std::size_t memory_of_host();

/// Every process calls it, the first one gets the result.
[[nodiscard]] std::optional<cubist::Machine> machine_on(const Job& job, const MachineTask& task);
[[nodiscard]] std::optional<cubist::Machine> machine_on_mpi(const MachineTask& task);

/// Adds the subcommand, which sets `action`.
void add_machine(CLI::App& app, Action& action);

}  // namespace bench
