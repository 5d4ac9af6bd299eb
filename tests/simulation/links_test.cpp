// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/simulation/links.hpp"

#include "catch.hpp"
#include "machines.hpp"

namespace cubist::test::simulation_links_test
{

using cubist::detail::SimulatedLinks;

TEST_CASE("units are ranks, nodes, racks")
{
  const SimulatedLinks links{test::racks(), 16};
  CHECK(links.unit(0, 13) == 13);
  CHECK(links.unit(1, 13) == 3);
  CHECK(links.unit(2, 13) == 1);
  CHECK(links.same_node(4, 7));
  CHECK_FALSE(links.same_node(3, 4));
}

TEST_CASE("each unit has its own two links, and each group of nodes its cores")
{
  auto shared = test::racks();
  shared.nodes_sharing = 2;
  for (const auto& [m, groups_of_cores] : {std::pair{test::racks(), 4}, std::pair{shared, 2}})
  {
    const SimulatedLinks links{m, 16};
    std::set<int> all;
    for (std::size_t level = 0; level < 3; ++level)
      for (int rank = 0; rank < 16; ++rank)
      {
        all.insert(links.into(level, links.unit(level, rank)));
        all.insert(links.out_of(level, links.unit(level, rank)));
      }
    CHECK(all.size() == 2 * (16 + 4 + 2));
    for (int rank = 0; rank < 16; ++rank) all.insert(links.cores_of(rank));
    CHECK(all.size() == 2 * (16 + 4 + 2) + static_cast<std::size_t>(groups_of_cores));
    CHECK(links.resources() == all.size());
    CHECK(*all.rbegin() + 1 == static_cast<int>(all.size()));
  }
}

}  // namespace cubist::test::simulation_links_test
