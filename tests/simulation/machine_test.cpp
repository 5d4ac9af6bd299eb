// SPDX-License-Identifier: BSD-3-Clause
#include <functional>
#include <limits>
#include <vector>

#include "cubist/simulation/machine.hpp"

#include "catch.hpp"

namespace simulation_machine_test
{

using namespace cubist;

TEST_CASE("ranks share the cores of their node")
{
  SimulatedMachine machine;
  machine.cores = 16;
  machine.links.front().ranks = 8;
  CHECK(machine.on_a_node(4) == 4);
  CHECK(machine.on_a_node(64) == 8);
  CHECK(machine.threads(4) == 4);
  CHECK(machine.threads(64) == 2);
  CHECK_FALSE(machine.shares_cores(64));
  machine.nodes_sharing = 4;
  CHECK(machine.on_the_cores(64) == 32);
  CHECK(machine.threads(64) == 1);
  CHECK(machine.shares_cores(64));
}

TEST_CASE("messages that occupy cores make ranks share them")
{
  SimulatedMachine machine;
  machine.links.back().core_seconds_per_byte = 1e-9;
  CHECK(machine.shares_cores(2));
}

TEST_CASE("the memory of a node is shared by its ranks")
{
  SimulatedMachine machine;
  machine.links.front().ranks = 8;
  machine.memory = 800;
  CHECK(machine.memory_per_rank(64) == 100);
  CHECK(machine.memory_per_rank(2) == 400);
  machine.memory_bandwidth = 10;
  CHECK(machine.pass_bandwidth(8) == 10);
  machine.node_memory_bandwidth = 40;
  CHECK(machine.pass_bandwidth(8) == 5);
  CHECK(machine.pass_bandwidth(2) == 10);
}

TEST_CASE("a machine with which times would be wrong is refused")
{
  CHECK_NOTHROW(require_valid(SimulatedMachine{}));
  using Change = std::function<void(SimulatedMachine&)>;
  const std::vector<Change> changes = {
      [](auto& m) { m.cores = 0; },
      [](auto& m) { m.memory_bandwidth = -1; },
      [](auto& m) { m.call_seconds = std::numeric_limits<double>::infinity(); },
      [](auto& m) { m.links.clear(); },
      [](auto& m) { m.links.back().ranks = 64; },
      [](auto& m) { m.links.back().bandwidth = 0; },
      [](auto& m) { m.links.back().latency = -1; },
      [](auto& m) {
        m.links.insert(m.links.begin() + 1, {"rack", 24, 0, 1e9});
      },
      [](auto& m) { m.rates.clear(); },
      [](auto& m) { m.rates["float"].rates.clear(); }};
  for (std::size_t i = 0; i < changes.size(); ++i)
  {
    CAPTURE(i);
    SimulatedMachine machine;
    changes[i](machine);
    CHECK_THROWS_AS(require_valid(machine), ArgumentError);
  }
}

}  // namespace simulation_machine_test
