// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The machine as the simulator needs it: rates of products over shapes, memory and links.

#include <cstddef>
#include <optional>

#include <cubist/simulation/machine.hpp>

#include "job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// As `SimulatedMachine::nodes_sharing`, where all nodes are on one machine, however many they are.
inline constexpr int most_nodes_sharing = 1024;

struct RatesTask
{
  int ranks = 1;
  int nodes = 1;
  int machines = 1;            // of which each may run several nodes
  std::size_t largest = 2048;  // size of the products
  std::size_t gpu_memory = 0;  // bytes of a GPU, if each rank has one
};

/// Bytes of memory of this host.
[[nodiscard]] std::size_t memory_of_host();

/// Every process calls it, the first one gets the result.
[[nodiscard]] std::optional<cubist::SimulatedMachine> rates_on(const Job& job,
                                                               const RatesTask& task);
[[nodiscard]] std::optional<cubist::SimulatedMachine> rates_on_mpi(const RatesTask& task);

/// Adds the subcommand, which sets `action`.
void add_rates(CLI::App& app, Action& action);

}  // namespace bench
