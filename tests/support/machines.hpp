// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Machines for which tests compute times by hand.

#include "cubist/machine/machine.hpp"

namespace cubist::test
{

/// Nodes of one core, on links that take no time.
[[nodiscard]] inline Machine free_links()
{
  Machine m{.name = "free links", .cores = 1, .memory_bandwidth = 1e15};
  m.links = {{.name = "memory", .ranks = 1, .latency = 1e-12, .bandwidth = 1e18},
             {.name = "network", .latency = 1e-12, .bandwidth = 1e18}};
  return m;
}

/// A machine with 4 ranks on each node and 2 nodes in each rack.
[[nodiscard]] inline Machine racks()
{
  Machine m;
  m.links = {{"memory", 4, 0, 1}, {"network", 8, 0, 1}, {"spine", 0, 0, 1}};
  return m;
}

}  // namespace cubist::test
