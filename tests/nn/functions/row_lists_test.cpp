// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <optional>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/functions/row_lists.hpp"

#include "catch.hpp"

using cubist::detail::DistinctIds;
using cubist::detail::HostRowLists;

TEST_CASE("distinct ids are numbered in the order of their first rows")
{
  DistinctIds ids;
  ids.reserve(10, 6);
  const std::vector<int> all{9, 5, 3, 5, 8, 4};
  ids.find(all, {1, 5, 4}, {3, 5, 5});  // rows 1 to 4, and tokens 3 to 7
  REQUIRE(ids.size() == 2);
  CHECK(ids[0] == 5);
  CHECK(ids[1] == 3);
  CHECK(ids.number(5) == 0);
  CHECK(ids.number(3) == 1);
  for (const int other : {8, 4, 9}) CHECK(ids.number(other) == std::nullopt);

  ids.find(all, {4, 2, 2}, {0, 10, 10});
  CHECK(ids.size() == 2);
  CHECK(ids.number(8) == 0);
  CHECK(ids.number(5) == std::nullopt);
}

TEST_CASE("lists of rows are uploaded one after the other, and groups keep the order of their rows")
{
  HostRowLists lists;
  lists.clear();
  lists.add(7, 2);
  const std::vector<std::optional<std::size_t>> groups{1, std::nullopt, 0, 1, 1};
  lists.add_grouped(
      2, groups.size(), [&](std::size_t i) { return groups[i]; },
      [](std::size_t l) { return 20 + l; });
  lists.add(8, 0);
  REQUIRE(lists.size() == 4);

  std::vector<int> memory(HostRowLists::numbers(4, 6));
  lists.upload(cubist::HostEngine{}, memory.data());
  const std::vector<std::vector<int>> wanted{{2}, {2}, {0, 3, 4}, {0}};
  const std::vector<int> targets{7, 20, 21, 8};
  const cubist::RowLists middle = lists.part(1, 2, memory.data());
  CHECK(middle.count == 2);
  CHECK(middle.targets[0] == targets[1]);
  const cubist::RowLists whole = lists.part(0, 4, memory.data());
  for (std::size_t l = 0; l < 4; ++l)
  {
    CHECK(whole.targets[l] == targets[l]);
    CHECK(std::vector<int>(whole.rows + whole.starts[l], whole.rows + whole.starts[l + 1]) ==
          wanted[l]);
  }
  CHECK(middle.rows[middle.starts[1]] == 0);
}
