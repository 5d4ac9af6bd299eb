// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/scheme/owned_product.hpp"

#include "catch.hpp"
#include "placements.hpp"

// What ranks multiply and take from each other, against what they are to cover. That products are
// right is tested for every scheme, by tests/support/scheme_conformance.hpp.

using namespace cubist;
using namespace cubist::detail;
using namespace cubist::test;

namespace
{

/// How often each product A(i, k) B(k, j) comes into C(i, j), over all ranks.
std::vector<int> times_added(const Placement& a, const Placement& b, const Placement& c,
                             ProductSize s)
{
  std::vector<int> times(s.m * s.n * s.k);
  for (int rank = 0; rank < c.ranks(); ++rank)
  {
    const auto product = product_in_place(a, b, c, rank);
    for (const auto& t : product.tiles)
    {
      // A and B agree on the inner indices, A and C on rows, B and C on columns.
      const std::size_t row = c[rank].rows.offset + t.c.i;
      const std::size_t col = c[rank].cols.offset + t.c.j;
      std::vector<std::size_t> inner_a;
      for (const auto& [at, depth] : t.a)
      {
        CHECK(a[at.rank].rows.offset + at.i == row);
        CHECK(at.i + t.size.m <= a[at.rank].rows.valid);
        CHECK(at.j + depth <= a[at.rank].cols.valid);
        for (std::size_t k = 0; k < depth; ++k)
          inner_a.push_back(a[at.rank].cols.offset + at.j + k);
      }
      std::vector<std::size_t> inner_b;
      for (const auto& [at, depth] : t.b)
      {
        CHECK(b[at.rank].cols.offset + at.j == col);
        CHECK(at.j + t.size.n <= b[at.rank].cols.valid);
        CHECK(at.i + depth <= b[at.rank].rows.valid);
        for (std::size_t k = 0; k < depth; ++k)
          inner_b.push_back(b[at.rank].rows.offset + at.i + k);
      }
      CHECK(inner_a == inner_b);
      CHECK(inner_a.size() == t.size.k);
      for (std::size_t i = 0; i < t.size.m; ++i)
        for (std::size_t j = 0; j < t.size.n; ++j)
          for (const std::size_t k : inner_a) ++times[((row + i) * s.n + col + j) * s.k + k];
    }
  }
  return times;
}

/// How often each product of two elements comes into each rank's C by sums of a cut, C's elements
/// in the order of ranks.
void check_sums(const Placement& a, const Placement& b, const Placement& c, const WorkCut& cut)
{
  const auto inner = static_cast<int>(a.shape().cols);
  std::vector<OwnedProduct> products;
  for (int rank = 0; rank < c.ranks(); ++rank)
    products.push_back(product_by_sums(a, b, c, rank, cut));
  for (int rank = 0; rank < c.ranks(); ++rank)
  {
    const auto& mine = products[static_cast<std::size_t>(rank)];
    CHECK(mine.sums);
    CHECK(mine.shared);
    CHECK(mine.room == products[0].room);
    const Shape block = c[rank].valid();
    std::vector<int> inner_indices(block.size());
    std::vector<int> firsts(block.size());
    for (const auto& share : mine.shares)
    {
      const auto& theirs = products[static_cast<std::size_t>(share.from.rank)];
      CHECK(share.from.i + share.shape.rows <= theirs.room.rows);
      CHECK(share.from.j + share.shape.cols <= theirs.room.cols);
      for (std::size_t i = 0; i < share.shape.rows; ++i)
        for (std::size_t j = 0; j < share.shape.cols; ++j)
        {
          const std::size_t at = (share.to.i + i) * block.cols + share.to.j + j;
          firsts[at] += share.first ? 1 : 0;
          for (const auto& t : theirs.tiles)
            if (t.c.i <= share.from.i + i && share.from.i + i < t.c.i + t.size.m &&
                t.c.j <= share.from.j + j && share.from.j + j < t.c.j + t.size.n)
              inner_indices[at] += static_cast<int>(t.size.k);
        }
    }
    CHECK(inner_indices == std::vector<int>(block.size(), inner));
    CHECK(firsts == std::vector<int>(block.size(), 1));
  }
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

TEST_CASE("Sums of all parts of a cut have every product of two elements once, on every replica")
{
  for (const ProductSize s : {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}})
    for (const WorkCut cut : {WorkCut{1, 1, 12}, WorkCut{2, 3, 2}, WorkCut{3, 1, 4}})
    {
      CAPTURE(s.m, s.n, s.k, cut.m, cut.n, cut.k);
      check_sums(blocks({s.m, s.k}, 2, 3, 2), blocks({s.k, s.n}, 3, 4), blocks({s.m, s.n}, 2, 3, 2),
                 cut);
      check_sums(blocks({s.m, s.k}, 1, 12), blocks({s.k, s.n}, 12, 1), blocks({s.m, s.n}, 1, 12),
                 cut);
    }
}

TEST_CASE("A product with few elements and many inner indices is made by sums")
{
  const auto a = blocks({64, 1 << 16}, 2, 2);
  const auto b = blocks({1 << 16, 64}, 2, 2);
  CHECK(owned_product(a, b, blocks({64, 64}, 2, 2), 3).sums);
  CHECK_FALSE(
      owned_product(blocks({512, 512}, 2, 2), blocks({512, 512}, 2, 2), blocks({512, 512}, 2, 2), 3)
          .sums);
}

TEST_CASE("A factor is read by others unless each rank has all that its block needs")
{
  const auto reads = [](const Placement& a, const Placement& b, const Placement& c) {
    const auto product = owned_product(a, b, c, 0);
    return std::pair{product.reads_a, product.reads_b};
  };
  // Rows of C need rows of A and all of B.
  const auto rows = blocks({12, 8}, 4, 1);
  CHECK(reads(rows, blocks({8, 6}, 1, 1, 4), blocks({12, 6}, 4, 1)) == std::pair{false, false});
  CHECK(reads(rows, blocks({8, 6}, 4, 1), blocks({12, 6}, 4, 1)) == std::pair{false, true});
  CHECK(reads(blocks({12, 8}, 2, 2), blocks({8, 6}, 2, 2), blocks({12, 6}, 2, 2)) ==
        std::pair{true, true});
  // Columns of C need all of A.
  CHECK(reads(blocks({12, 8}, 1, 4), blocks({8, 6}, 1, 4), blocks({12, 6}, 1, 4)) ==
        std::pair{true, false});
  // The last rank has nothing to make, so it reads nothing.
  CHECK(reads(blocks({3, 8}, 4, 1), blocks({8, 6}, 1, 1, 4), blocks({3, 6}, 4, 1)) ==
        std::pair{false, false});
}

TEST_CASE("What is stored transposed has its tiles in the stored block")
{
  const ProductSize s{5, 6, 7};
  const auto a = blocks({s.k, s.m}, 3, 2, 1, true);
  const auto b = blocks({s.n, s.k}, 2, 3, 1, true);
  // C^T = B^T A^T, so the corners of C are those of its transpose.
  const auto stored = owned_product(b.t(), a.t(), blocks({s.n, s.m}, 3, 2), 4);
  const auto swapped = owned_product(a, b, blocks({s.n, s.m}, 3, 2, 1, true), 4);
  REQUIRE(stored.tiles.size() == swapped.tiles.size());
  for (std::size_t i = 0; i < stored.tiles.size(); ++i)
  {
    CHECK(stored.tiles[i].c.i == swapped.tiles[i].c.i);
    CHECK(stored.tiles[i].size.m == swapped.tiles[i].size.m);
  }
}

TEST_CASE("Replicas make a share of the rows each, and read their own replicas of the operands")
{
  const auto c = blocks({10, 4}, 1, 1, 3);
  const auto a = blocks({10, 6}, 1, 1, 3);
  const auto b = blocks({6, 4}, 3, 1);
  std::size_t rows = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto product = owned_product(a, b, c, rank);
    CHECK(product.shared);
    CHECK(product.mine.i == rows);
    CHECK(product.shares.size() == 2);
    rows += product.mine.shape.rows;
    for (const auto& t : product.tiles) CHECK(t.a.front().at.rank == rank);
  }
  CHECK(rows == 10);
  CHECK_FALSE(owned_product(a, b, blocks({10, 4}, 3, 1), 0).shared);
}

TEST_CASE("A rank without elements, and a product without inner indices, have no tiles")
{
  const auto none =
      owned_product(blocks({1, 4}, 2, 1), blocks({4, 4}, 1, 2), blocks({1, 4}, 2, 1), 1);
  CHECK(none.tiles.empty());
  CHECK(none.mine.shape.size() == 0);
  const auto hollow =
      owned_product(blocks({4, 0}, 2, 1), blocks({0, 4}, 1, 2), blocks({4, 4}, 2, 1), 1);
  CHECK(hollow.tiles.empty());
  CHECK(hollow.mine.shape == Shape{2, 4});
}
