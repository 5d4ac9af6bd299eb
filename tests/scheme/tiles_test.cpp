// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <set>
#include <tuple>
#include <vector>

#include "cubist/scheme/tiles.hpp"

#include "catch.hpp"

using namespace cubist;
using namespace cubist::detail;

namespace
{

/// How often each (row, column, inner) of the product is multiplied.
std::vector<int> multiplied(const std::vector<Tile>& tiles, ProductSize s)
{
  std::vector<int> times(s.m * s.n * s.k);
  for (const auto& t : tiles)
    for (std::size_t i = t.rows.begin; i < t.rows.end; ++i)
      for (std::size_t j = t.cols.begin; j < t.cols.end; ++j)
        for (std::size_t l = t.inner.begin; l < t.inner.end; ++l) ++times[(i * s.n + j) * s.k + l];
  return times;
}

std::size_t foreign(const Tile& t, Pieces a, Pieces b)
{
  return (t.a != a.own ? 1U : 0U) + (t.b != b.own ? 1U : 0U);
}

/// The laws of an order of tiles.
void check_order(const std::vector<Tile>& tiles, Pieces a, Pieces b, Pieces c)
{
  std::set<std::pair<std::size_t, std::size_t>> written;
  std::vector<std::size_t> left(c.count);
  for (const auto& t : tiles) ++left[t.c];
  bool waited = false;
  bool kept = false;
  for (const auto& t : tiles)
  {
    CHECK(t.first == written.insert({t.rows.begin, t.cols.begin}).second);
    CHECK(t.last == (--left[t.c] == 0));
    // What is here comes before what has to come, and what leaves before what stays.
    const bool waits = foreign(t, a, b) > 0;
    CHECK((waits || !waited));
    waited = waits;
    if (waits)
    {
      CHECK((t.c == c.own || !kept));
      kept = t.c == c.own;
    }
  }
}

}  // namespace

TEST_CASE("two cuts of one extent overlap in every index once")
{
  const std::size_t p = GENERATE(1U, 2U, 3U, 4U);
  const std::size_t q = GENERATE(1U, 2U, 3U, 4U);
  std::size_t next = 0;
  for (const auto& o : overlaps(24, p, q))
  {
    CHECK(o.part.begin == next);
    CHECK(o.part.size() > 0);
    CHECK(o.part.begin / (24 / p) == o.i);
    CHECK((o.part.end - 1) / (24 / p) == o.i);
    CHECK(o.part.begin / (24 / q) == o.j);
    CHECK((o.part.end - 1) / (24 / q) == o.j);
    next = o.part.end;
  }
  CHECK(next == 24);
}

TEST_CASE("tiles multiply everything once, in an order that lets data travel")
{
  const std::size_t p = GENERATE(1U, 2U, 3U);
  const std::size_t q = GENERATE(1U, 2U, 4U);
  const std::size_t r = GENERATE(1U, 2U, 3U);
  const std::size_t own = GENERATE(0U, 1U);
  const Pieces a{p, own % p};
  const Pieces b{q, (own + 1) % q};
  const Pieces c{r, own % r};
  const ProductSize s{.m = 12, .n = 24, .k = 36};
  for (const auto& tiles : {product_tiles(s, a, b, c), product_transposed_tiles(s, a, b, c),
                            transposed_product_tiles(s, a, b, c)})
  {
    const auto times = multiplied(tiles, s);
    CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
    check_order(tiles, a, b, c);
  }
}

TEST_CASE("a tile says which pieces it needs")
{
  const ProductSize s{.m = 12, .n = 6, .k = 4};
  const Pieces two{2, 1};
  const Pieces three{3, 0};
  for (const auto& t : product_tiles(s, two, two, three))
  {
    CHECK(t.rows.begin / 6 == t.a);
    CHECK(t.inner.begin / 2 == t.b);
    CHECK(t.rows.begin / 4 == t.c);
  }
  for (const auto& t : product_transposed_tiles(s, three, two, two))
  {
    CHECK(t.rows.begin / 4 == t.a);
    CHECK(t.cols.begin / 3 == t.b);
    CHECK(t.rows.begin / 6 == t.c);
  }
  for (const auto& t : transposed_product_tiles(s, two, two, three))
  {
    CHECK(t.inner.begin / 2 == t.a);
    CHECK(t.inner.begin / 2 == t.b);
    CHECK(t.rows.begin / 4 == t.c);
  }
}

TEST_CASE("a product without inner indices still has a first tile for every block of C")
{
  const Pieces two{2, 0};
  const Pieces three{3, 0};
  const ProductSize s{.m = 6, .n = 5, .k = 0};
  for (const auto& tiles :
       {product_tiles(s, two, three, three), product_transposed_tiles({6, 6, 0}, two, three, three),
        transposed_product_tiles(s, two, three, three)})
  {
    std::vector<int> rows(6);
    for (const auto& t : tiles)
      if (t.first)
        for (std::size_t i = t.rows.begin; i < t.rows.end; ++i) rows[i] = 1;
    CHECK(rows == std::vector<int>(6, 1));
  }
}
