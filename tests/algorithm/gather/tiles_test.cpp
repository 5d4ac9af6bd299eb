// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/algorithm/gather/tiles.hpp"

#include "catch.hpp"

namespace cubist::test::algorithm_gather_tiles_test
{

using namespace cubist::detail;

TEST_CASE("Two cuts of one extent overlap in every index once")
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

constexpr Dimension dimensions[] = {Dimension::rows, Dimension::cols};

static std::vector<Tile> all(const Tiles& tiles)
{
  std::vector<Tile> list;
  for (std::size_t i = 0; i < tiles.size(); ++i) list.push_back(tiles[i]);
  return list;
}

/// How many times tiles multiply each (row, column, inner index) of the product.
static std::vector<int> multiplied(const Tiles& tiles, ProductSize s)
{
  std::vector<int> times(s.m * s.n * s.k);
  for (const Tile& t : all(tiles))
    for (std::size_t i = t.rows.begin; i < t.rows.end; ++i)
      for (std::size_t j = t.cols.begin; j < t.cols.end; ++j)
        for (std::size_t l = t.inner.begin; l < t.inner.end; ++l) ++times[(i * s.n + j) * s.k + l];
  return times;
}

static std::size_t foreign(const Tile& t, Pieces a, Pieces b)
{
  return (t.a != a.own ? 1U : 0U) + (t.b != b.own ? 1U : 0U);
}

/// Checks the rules for an order of tiles.
static void check_order(const Tiles& tiles, Pieces a, Pieces b, Pieces c)
{
  std::set<std::pair<std::size_t, std::size_t>> written;
  std::vector<std::size_t> left(c.count);
  for (const Tile& t : all(tiles)) ++left[t.c];
  bool waited = false;
  bool kept = false;
  for (const Tile& t : all(tiles))
  {
    CHECK(t.first == written.insert({t.rows.begin, t.cols.begin}).second);
    CHECK(t.last == (--left[t.c] == 0));
    // Local operands come before received ones, and pieces to send before those that stay.
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

TEST_CASE("Tiles multiply everything once: own operands first, own results last")
{
  const std::size_t p = GENERATE(1U, 2U, 3U);
  const std::size_t q = GENERATE(1U, 2U, 4U);
  const std::size_t r = GENERATE(1U, 2U, 3U);
  const std::size_t own = GENERATE(0U, 1U);
  const Pieces a{p, own % p};
  const Pieces b{q, (own + 1) % q};
  const Pieces c{r, own % r};
  const ProductSize s{.m = 12, .n = 24, .k = 36};
  for (const auto by_a : dimensions)
    for (const auto by_b : dimensions)
      for (const auto by_c : dimensions)
      {
        const Pieces pa{a.count, a.own, by_a};
        const Pieces pb{b.count, b.own, by_b};
        const Pieces pc{c.count, c.own, by_c};
        const auto tiles = Tiles{s, s, pa, pb, pc};
        const auto times = multiplied(tiles, s);
        CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
        check_order(tiles, pa, pb, pc);
      }
}

TEST_CASE("Tiles are in the order in which their operands arrive, those from other nodes later")
{
  // A is cut by rows, B by inner indices, as X and W of Grid3D are; a rank has the pieces 2 and 1.
  const auto order = [](bool remote_a, bool remote_b) {
    const Pieces a{3, 2, Dimension::rows, remote_a};
    const Pieces b{3, 1, Dimension::rows, remote_b};
    std::vector<std::size_t> pieces;
    for (const Tile& t : all(Tiles{{3, 1, 3}, {3, 1, 3}, a, b, {}}))
      pieces.push_back(10 * t.a + t.b);
    return pieces;
  };
  CHECK(order(true, false) == std::vector<std::size_t>{21, 20, 22, 1, 0, 2, 11, 10, 12});
  CHECK(order(false, true) == std::vector<std::size_t>{21, 1, 11, 20, 0, 10, 22, 2, 12});
  // If both are equally far, each step has all tiles whose pieces have arrived.
  CHECK(order(true, true) == std::vector<std::size_t>{21, 1, 20, 0, 11, 10, 22, 2, 12});
}

TEST_CASE("A tile lies in the pieces that it names")
{
  const ProductSize s{.m = 12, .n = 6, .k = 24};
  const auto inside = [](Interval i, std::size_t n, std::size_t pieces, std::size_t piece) {
    return i.begin >= piece * (n / pieces) && i.end <= (piece + 1) * (n / pieces);
  };
  for (const auto by_a : dimensions)
    for (const auto by_b : dimensions)
      for (const auto by_c : dimensions)
      {
        const Pieces a{2, 1, by_a};
        const Pieces b{2, 0, by_b};
        const Pieces c{3, 2, by_c};
        for (const Tile& t : all(Tiles{s, s, a, b, c}))
        {
          CHECK((by_a == Dimension::rows ? inside(t.rows, s.m, 2, t.a)
                                         : inside(t.inner, s.k, 2, t.a)));
          CHECK((by_b == Dimension::rows ? inside(t.inner, s.k, 2, t.b)
                                         : inside(t.cols, s.n, 2, t.b)));
          CHECK((by_c == Dimension::rows ? inside(t.rows, s.m, 3, t.c)
                                         : inside(t.cols, s.n, 3, t.c)));
        }
      }
}

TEST_CASE("The pieces of a transpose cut the other dimension")
{
  CHECK(Pieces{3, 1, Dimension::rows}.t().of(Dimension::cols) == 3);
  CHECK(Pieces{3, 1, Dimension::cols}.t().of(Dimension::rows) == 3);
  CHECK(Pieces{3, 1, Dimension::cols}.t().of(Dimension::cols) == 1);
  CHECK(Pieces{}.t().count == 1);
}

TEST_CASE("A product without inner indices still has a first tile for every block of C")
{
  const Pieces two{2, 0, Dimension::rows};
  const Pieces three{3, 0, Dimension::rows};
  const ProductSize s{.m = 6, .n = 5, .k = 0};
  std::vector<int> rows(6);
  for (const Tile& t : all(Tiles{s, s, two, three, three}))
    if (t.first)
      for (std::size_t i = t.rows.begin; i < t.rows.end; ++i) rows[i] = 1;
  CHECK(rows == std::vector<int>(6, 1));
}

TEST_CASE("Tiles end where the matrices do, and every piece of C still has its last one")
{
  // Seven rows in four pieces of up to three rows.
  const Pieces a{4, 1, Dimension::rows};
  const Pieces c{2, 0, Dimension::rows};
  const ProductSize padded{.m = 12, .n = 5, .k = 4};
  const ProductSize valid{.m = 7, .n = 5, .k = 3};
  const auto tiles = Tiles{padded, valid, a, {}, c};
  const auto times = multiplied(tiles, valid);
  CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
  std::set<std::size_t> complete;
  for (const Tile& t : all(tiles))
    if (t.last) complete.insert(t.c);
  CHECK(complete.size() == 2);
}

}  // namespace cubist::test::algorithm_gather_tiles_test
