// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The machine of the planner's model as the simulator sees it, so that the simulator, which runs
// the real program, judges the planner's formulas on the same figures.
//
//   products   operations / rate + bytes touched / memory bandwidth, tabulated by shape
//   inside     copies by each rank, at the bandwidth of `inside`
//   across     a link for each node; messages occupy its cores for 1 - hidden of their time
//
// The gemm figures of direct products are not used.

#include <cstddef>

#include <cubist/core/block.hpp>
#include <cubist/plan/machine.hpp>
#include <cubist/plan/work.hpp>
#include <cubist/simulation/machine.hpp>

namespace cubist
{

namespace detail
{

/// The rates of one core for elements of so many bytes.
[[nodiscard]] inline RateTable rates_of(const Machine& machine, std::size_t scalar_bytes)
{
  RateTable table;
  for (double size = 8; size <= 32'768; size *= 4) table.m.push_back(size);
  table.n = table.k = table.m;
  for (const double m : table.m)
    for (const double n : table.n)
      for (const double k : table.k)
      {
        const LocalGemm gemm{static_cast<std::size_t>(m), static_cast<std::size_t>(n),
                             static_cast<std::size_t>(k)};
        const double seconds = gemm.flops() / machine.rate(scalar_bytes) +
                               gemm.touched() * double(scalar_bytes) / machine.memory_bandwidth;
        table.rates.push_back(gemm.flops() / seconds);
      }
  return table;
}

}  // namespace detail

/// @throws ArgumentError for figures that the planner refuses
[[nodiscard]] inline SimulatedMachine simulated_machine(const Machine& machine)
{
  require_valid(machine);
  SimulatedMachine simulated;
  simulated.name = "the planner's machine";
  simulated.cores = machine.cores;
  simulated.nodes_sharing = machine.nodes_sharing;
  simulated.memory = machine.memory;
  simulated.memory_bandwidth = machine.memory_bandwidth;
  simulated.links = {{.name = "inside",
                      .ranks = machine.ranks_per_node,
                      .latency = machine.inside.latency,
                      .bandwidth = machine.inside.bandwidth,
                      .overlaps = false},
                     {.name = "across",
                      .latency = machine.across.latency,
                      .bandwidth = machine.across.bandwidth,
                      // Of each byte that leaves a node, and of each that enters one.
                      .core_seconds_per_byte =
                          (1 - machine.hidden) * machine.cores / machine.across.bandwidth / 2}};
  simulated.rates = {{"float", detail::rates_of(machine, sizeof(float))},
                     {"double", detail::rates_of(machine, sizeof(double))}};
  return simulated;
}

}  // namespace cubist
