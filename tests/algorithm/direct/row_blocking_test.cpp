// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/row_blocking.hpp"

#include "catch.hpp"
#include "placements.hpp"

namespace algorithm_direct_row_blocking_test
{

// That strips cover every product of two elements once is tested with those of all ranks, in
// work_assignment_test.cpp.

using namespace cubist;
using namespace cubist::detail;
using namespace cubist::test;

namespace
{

Range all(std::size_t n) { return {0, n, n}; }

/// A cache for so many elements.
GemmTimes times_with(std::size_t cached)
{
  GemmTimes times;
  times.cached = cached;
  return times;
}

}  // namespace

TEST_CASE("Strips have as many rows as fit a cache beside B")
{
  const GemmTimes doubles = GemmTimes::of(sizeof(double));
  const GemmTimes floats = GemmTimes::of(sizeof(float));
  CHECK(rows_per_strip({4096, 256, 256}, doubles) == 256);
  CHECK(rows_per_strip({4096, 256, 256}, floats) == 512);
  // Whole lines of the kernel, no more than the cache.
  CHECK(rows_per_strip({100'000, 3, 1100}, doubles) == 0);
  CHECK(rows_per_strip({100'000, 3, 700}, doubles) == 128);
  CHECK(rows_per_strip({100'000, 100, 150}, doubles) == 512);
  // One strip would be all.
  CHECK(rows_per_strip({256, 256, 256}, doubles) == 0);
  CHECK(rows_per_strip({257, 256, 256}, doubles) == 256);
  // B is too large.
  CHECK(rows_per_strip({4096, 257, 256}, doubles) == 0);
  CHECK(rows_per_strip({4096, 4096, 4096}, floats) == 0);
  CHECK(rows_per_strip({4096, 0, 256}, doubles) == 0);
  CHECK(rows_per_strip({4096, 256, 0}, doubles) == 0);
}

TEST_CASE("A is assembled once for all parts with its rows, B once for all strips")
{
  // A in two pieces a row, B in four; two parts with the same rows, then one with others.
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<TargetPart> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                      {{{0, 300, 300}, {20, 20, 20}}, {1, 7, 0}},
                                      {{{300, 300, 300}, {0, 20, 20}}, {2, 0, 3}}};
  const auto products = products_of_parts(a, b, parts, all(40), 0, times_with(140 * 80));
  REQUIRE(products.size() == 9);
  for (std::size_t i = 0; i < 6; ++i)
  {
    const auto& t = products[i];
    CAPTURE(i);
    CHECK(t.c.rank == static_cast<int>(i % 2));
    CHECK(t.c.i == i / 2 * 128 + (i % 2 == 0 ? 0 : 7));
    CHECK(t.size.m == (i < 4 ? 128 : 44));
    CHECK(t.size.n == 20);
    CHECK(t.size.k == 40);
    CHECK(t.first);
    CHECK(t.a.size() == 2);
    CHECK(t.b.size() == 2);
    CHECK(t.same_a == (i % 2 == 1));
    CHECK(t.same_b == (i >= 2));
    CHECK(t.b_slot == i % 2);
  }
  for (std::size_t i = 6; i < 9; ++i)
  {
    CHECK(products[i].c.rank == 2);
    CHECK(products[i].c.i == (i - 6) * (products[6].size.m));
    CHECK(products[i].c.j == 3);
    CHECK_FALSE(products[i].same_a);
    CHECK(products[i].same_b == (i > 6));
    CHECK(products[i].b_slot == 0);
  }
}

TEST_CASE("Parts that do not fit a cache are multiplied one after the other")
{
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<TargetPart> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                      {{{0, 300, 300}, {20, 20, 20}}, {1, 0, 0}}};
  const auto products = products_of_parts(a, b, parts, all(40), 0, times_with(100));
  std::vector<BlockProduct> expected;
  for (const auto& [part, origin] : parts)
    for (auto& t : block_products(a, b, part, all(40), origin, 0, times_with(100)))
      expected.push_back(t);
  REQUIRE(products.size() == expected.size());
  for (std::size_t i = 0; i < products.size(); ++i)
  {
    CHECK(products[i].c.rank == expected[i].c.rank);
    CHECK(products[i].size.m == expected[i].size.m);
    CHECK(products[i].size.k == expected[i].size.k);
  }
  CHECK(products_of_parts(a, b, {}, all(40), 0, {}).empty());
}

}  // namespace algorithm_direct_row_blocking_test
