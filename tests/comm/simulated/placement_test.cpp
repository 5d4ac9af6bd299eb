// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/simulated/placement.hpp"

#include "catch.hpp"
#include "machines.hpp"

namespace cubist::test::comm_simulated_placement_test
{

using namespace cubist::detail;

static SimulatedPlacement placement(const std::vector<int>& ranks)
{
  return {test::racks(), SimulatedLinks{test::racks(), 32}, ranks};
}

TEST_CASE("the level that connects ranks is the first that holds all of them")
{
  CHECK(placement({5}).top() == 0);
  CHECK(placement({4, 6, 7}).top() == 0);
  CHECK(placement({3, 4}).top() == 1);
  CHECK(placement({0, 8}).top() == 2);
}

TEST_CASE("units count their members, and the edges of the ring that leave them")
{
  const auto in_order = placement({0, 1, 2, 4, 5, 8});
  const auto& nodes = in_order.units(1);
  REQUIRE(nodes.size() == 3);
  const std::vector<std::size_t> members{3, 2, 1};
  for (std::size_t i = 0; i < 3; ++i)
  {
    CHECK(nodes[i].unit == static_cast<int>(i));
    CHECK(nodes[i].members == members[i]);
    CHECK(nodes[i].exits == 1);
  }
  CHECK(in_order.units(2)[0].members == 5);

  const auto in_turns = placement({0, 4, 1, 5});
  for (const auto& node : in_turns.units(1)) CHECK(node.exits == 2);
}

TEST_CASE("a rank's node holds as many members as it counts")
{
  const SimulatedLinks links{test::racks(), 32};
  const auto p = placement({0, 1, 2, 4, 5, 8});
  CHECK(p.on_node(links, 1) == 3);
  CHECK(p.on_node(links, 5) == 2);
  CHECK(p.on_node(links, 8) == 1);
  CHECK(placement({4, 6, 7}).on_node(links, 6) == 3);
}

}  // namespace cubist::test::comm_simulated_placement_test
