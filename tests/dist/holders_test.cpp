// SPDX-License-Identifier: BSD-3-Clause
#include <utility>
#include <vector>

#include "cubist/dist/holders.hpp"

#include "catch.hpp"

using namespace cubist;
using namespace cubist::detail;

namespace
{

/// Rows [i, i + m), of which `valid`, and columns [j, j + n).
Block block(std::size_t i, std::size_t m, std::size_t valid, std::size_t j, std::size_t n)
{
  return {{i, m, valid}, {j, n, n}};
}

}  // namespace

TEST_CASE("two blocks have a rectangle in common, without their padding")
{
  const auto r = intersection(block(2, 4, 4, 0, 5), block(4, 4, 1, 3, 5));
  CHECK(r.i == 4);
  CHECK(r.j == 3);
  CHECK(r.shape == Shape{1, 2});
  CHECK(intersection(block(0, 4, 4, 0, 5), block(4, 4, 4, 0, 5)).empty());
  CHECK(intersection(block(0, 4, 2, 0, 5), block(3, 4, 4, 0, 5)).empty());
}

TEST_CASE("holders are the replicas of each block that has elements")
{
  const std::vector<Block> blocks = {block(0, 2, 2, 0, 3), block(2, 2, 1, 0, 3),
                                     block(0, 2, 2, 0, 3), block(3, 2, 0, 0, 3)};
  const auto all = holders(4, [&](int r) { return blocks[static_cast<std::size_t>(r)]; });
  REQUIRE(all.size() == 2);
  CHECK(all.at({0, 0}) == std::vector<int>{0, 2});
  CHECK(all.at({2, 0}) == std::vector<int>{1});
}
