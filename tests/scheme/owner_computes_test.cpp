// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/scheme/owner_computes.hpp"

#include "catch.hpp"

// The tiles that a rank multiplies, against what they are to cover. That products are right is
// tested for every scheme, by tests/support/scheme_conformance.hpp.

using namespace cubist;
using namespace cubist::detail;

namespace
{

/// n indices in p blocks, the last ones shorter or empty; block i.
Range cut(std::size_t n, std::size_t p, std::size_t i) { return block_range(n, pad(n, p), p, i); }

/// Rank r of rows x cols x replicas has block (r / cols % rows, r % cols).
Placement blocks(Shape s, std::size_t rows, std::size_t cols, std::size_t replicas,
                 bool transposed = false)
{
  std::vector<Block> all;
  for (std::size_t r = 0; r < rows * cols * replicas; ++r)
    all.push_back({cut(s.rows, rows, r / cols % rows), cut(s.cols, cols, r % cols)});
  return {all, transposed};
}

/// How often each product A(i, k) B(k, j) is added to C(i, j), over all ranks.
std::vector<int> times_added(const Placement& a, const Placement& b, const Placement& c,
                             ProductSize s)
{
  std::vector<int> times(s.m * s.n * s.k);
  for (int rank = 0; rank < c.ranks(); ++rank)
    for (const auto& t : owned_product(a, b, c, rank).tiles)
    {
      const Block in_a = a[t.a.rank];
      const Block in_b = b[t.b.rank];
      const Block in_c = c[rank];
      // A and B agree on the inner indices, A and C on rows, B and C on columns.
      CHECK(in_a.cols.offset + t.a.j == in_b.rows.offset + t.b.i);
      CHECK(in_a.rows.offset + t.a.i == in_c.rows.offset + t.c.i);
      CHECK(in_b.cols.offset + t.b.j == in_c.cols.offset + t.c.j);
      CHECK(t.a.i + t.size.m <= in_a.rows.valid);
      CHECK(t.a.j + t.size.k <= in_a.cols.valid);
      CHECK(t.b.j + t.size.n <= in_b.cols.valid);
      for (std::size_t i = 0; i < t.size.m; ++i)
        for (std::size_t j = 0; j < t.size.n; ++j)
          for (std::size_t k = 0; k < t.size.k; ++k)
            ++times[((in_c.rows.offset + t.c.i + i) * s.n + in_c.cols.offset + t.c.j + j) * s.k +
                    in_a.cols.offset + t.a.j + k];
    }
  return times;
}

}  // namespace

TEST_CASE("Over all ranks, tiles make every product of two elements once")
{
  for (const ProductSize s :
       {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}, ProductSize{3, 1, 50}})
    for (const std::size_t replicas : {1U, 2U, 3U})
    {
      CAPTURE(s.m, s.n, s.k, replicas);
      const auto a = blocks({s.m, s.k}, 2, 3, replicas);
      const auto b = blocks({s.k, s.n}, 3, 2, replicas);
      for (const auto& c : {blocks({s.m, s.n}, 2, 3, replicas), blocks({s.m, s.n}, 6, 1, replicas),
                            blocks({s.m, s.n}, 1, 1, 6 * replicas)})
        CHECK(times_added(a, b, c, s) == std::vector<int>(s.m * s.n * s.k, 1));
    }
}

TEST_CASE("What is stored transposed has its tiles in the stored block")
{
  const ProductSize s{5, 6, 7};
  const auto a = blocks({s.k, s.m}, 3, 2, 1, true);
  const auto b = blocks({s.n, s.k}, 2, 3, 1, true);
  CHECK(times_added(a, b, blocks({s.m, s.n}, 2, 3, 1), s) == std::vector<int>(210, 1));
  // C^T = B^T A^T, so the corners of C are those of its transpose.
  const auto stored = owned_product(b.t(), a.t(), blocks({s.n, s.m}, 3, 2, 1), 4);
  const auto swapped = owned_product(a, b, blocks({s.n, s.m}, 3, 2, 1, true), 4);
  REQUIRE(stored.tiles.size() == swapped.tiles.size());
  for (std::size_t i = 0; i < stored.tiles.size(); ++i)
  {
    CHECK(stored.tiles[i].c.i == swapped.tiles[i].c.i);
    CHECK(stored.tiles[i].size.m == swapped.tiles[i].size.m);
  }
}

TEST_CASE("Each piece of the result is begun once, and its inner indices are in order")
{
  const auto product =
      owned_product(blocks({8, 12}, 2, 2, 1), blocks({12, 8}, 4, 1, 1), blocks({8, 8}, 1, 4, 1), 1);
  std::size_t begun = 0;
  for (std::size_t i = 0; i < product.tiles.size(); ++i)
  {
    const auto& t = product.tiles[i];
    begun += t.first ? 1 : 0;
    if (!t.first)
    {
      const auto& before = product.tiles[i - 1];
      CHECK(before.c.i == t.c.i);
      CHECK(before.b.rank < t.b.rank);
    }
  }
  CHECK(begun == 2);
  CHECK(product.tiles.size() == 8);
}

TEST_CASE("Replicas make a share of the rows each, and read their own replicas of the operands")
{
  const auto c = blocks({10, 4}, 1, 1, 3);
  const auto a = blocks({10, 6}, 1, 1, 3);
  const auto b = blocks({6, 4}, 3, 1, 1);
  std::size_t rows = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto product = owned_product(a, b, c, rank);
    CHECK(product.shared);
    CHECK(product.mine.corner.i == rows);
    CHECK(product.others.size() == 2);
    rows += product.mine.shape.rows;
    for (const auto& t : product.tiles) CHECK(t.a.rank == rank);
  }
  CHECK(rows == 10);
  CHECK_FALSE(owned_product(a, b, blocks({10, 4}, 3, 1, 1), 0).shared);
}

TEST_CASE("A rank without elements, and a product without inner indices, have no tiles")
{
  const auto none =
      owned_product(blocks({1, 4}, 2, 1, 1), blocks({4, 4}, 1, 2, 1), blocks({1, 4}, 2, 1, 1), 1);
  CHECK(none.tiles.empty());
  CHECK(none.mine.shape.size() == 0);
  const auto hollow =
      owned_product(blocks({4, 0}, 2, 1, 1), blocks({0, 4}, 1, 2, 1), blocks({4, 4}, 2, 1, 1), 1);
  CHECK(hollow.tiles.empty());
  CHECK(hollow.mine.shape == Shape{2, 4});
}
