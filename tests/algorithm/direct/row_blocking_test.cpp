// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/row_blocking.hpp"

#include "catch.hpp"
#include "placements.hpp"

// That strips cover every product of two elements once is tested with those of all ranks, in
// owned_product_test.cpp.

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

TEST_CASE("Strips are as high as a cache has room for, where it has room for B beside them")
{
  const GemmTimes doubles = GemmTimes::of(sizeof(double));
  const GemmTimes floats = GemmTimes::of(sizeof(float));
  CHECK(strip_rows({4096, 256, 256}, doubles) == 256);
  CHECK(strip_rows({4096, 256, 256}, floats) == 512);
  // Whole lines of the kernel, no more than the cache.
  CHECK(strip_rows({100'000, 3, 1100}, doubles) == 0);
  CHECK(strip_rows({100'000, 3, 700}, doubles) == 128);
  CHECK(strip_rows({100'000, 100, 150}, doubles) == 512);
  // One strip would be all.
  CHECK(strip_rows({256, 256, 256}, doubles) == 0);
  CHECK(strip_rows({257, 256, 256}, doubles) == 256);
  // B is too large to stay.
  CHECK(strip_rows({4096, 257, 256}, doubles) == 0);
  CHECK(strip_rows({4096, 4096, 4096}, floats) == 0);
  CHECK(strip_rows({4096, 0, 256}, doubles) == 0);
  CHECK(strip_rows({4096, 256, 0}, doubles) == 0);
}

TEST_CASE("What is put together is so once: A for all parts that have its rows, B for all strips")
{
  // A in two pieces a row, B in four; two parts with the same rows, then one with others.
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<OwnedTarget> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                       {{{0, 300, 300}, {20, 20, 20}}, {1, 7, 0}},
                                       {{{300, 300, 300}, {0, 20, 20}}, {2, 0, 3}}};
  const auto tiles = tiles_of_parts(a, b, parts, all(40), 0, times_with(140 * 80));
  REQUIRE(tiles.size() == 9);
  for (std::size_t i = 0; i < 6; ++i)
  {
    const auto& t = tiles[i];
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
    CHECK(t.b_place == i % 2);
  }
  for (std::size_t i = 6; i < 9; ++i)
  {
    CHECK(tiles[i].c.rank == 2);
    CHECK(tiles[i].c.i == (i - 6) * (tiles[6].size.m));
    CHECK(tiles[i].c.j == 3);
    CHECK_FALSE(tiles[i].same_a);
    CHECK(tiles[i].same_b == (i > 6));
    CHECK(tiles[i].b_place == 0);
  }
}

TEST_CASE("Parts that a cache has no room for are multiplied one after the other")
{
  const auto a = blocks({600, 40}, 2, 2);
  const auto b = blocks({40, 40}, 2, 2);
  const std::vector<OwnedTarget> parts{{{{0, 300, 300}, {0, 20, 20}}, {0, 0, 0}},
                                       {{{0, 300, 300}, {20, 20, 20}}, {1, 0, 0}}};
  const auto tiles = tiles_of_parts(a, b, parts, all(40), 0, times_with(100));
  std::vector<OwnedTile> wanted;
  for (const auto& [part, origin] : parts)
    for (auto& t : owned_tiles(a, b, part, all(40), origin, 0, times_with(100)))
      wanted.push_back(t);
  REQUIRE(tiles.size() == wanted.size());
  for (std::size_t i = 0; i < tiles.size(); ++i)
  {
    CHECK(tiles[i].c.rank == wanted[i].c.rank);
    CHECK(tiles[i].size.m == wanted[i].size.m);
    CHECK(tiles[i].size.k == wanted[i].size.k);
  }
  CHECK(tiles_of_parts(a, b, {}, all(40), 0, {}).empty());
}
