// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/work_assignment.hpp"

#include "catch.hpp"
#include "placements.hpp"

// What ranks multiply and take from each other, against what they are to cover. That products are
// right is tested for every scheme, by tests/support/scheme_conformance.hpp.

using namespace cubist;
using namespace cubist::detail;
using namespace cubist::test;

namespace
{

/// A matrix of numbers that say which elements of the whole matrix are where.
using Places = std::vector<std::size_t>;

/// The elements of a factor of `shape`, put together as a rank does.
Places together(const Placement& a, const std::vector<OwnedTile::Piece>& pieces, Shape shape)
{
  const std::size_t nowhere = a.shape().size();
  Places all(shape.size(), nowhere);
  for (const auto& [at, to] : pieces)
    for (std::size_t i = 0; i < to.shape.rows; ++i)
      for (std::size_t j = 0; j < to.shape.cols; ++j)
      {
        const Block& block = a[at.rank];
        CHECK(at.i + i < block.rows.valid);
        CHECK(at.j + j < block.cols.valid);
        auto& place = all[(to.i + i) * shape.cols + to.j + j];
        CHECK(place == nowhere);
        place = (block.rows.offset + at.i + i) * a.shape().cols + block.cols.offset + at.j + j;
      }
  return all;
}

/// How often each product A(i, k) B(k, j) comes into C(i, j), over all ranks.
std::vector<int> times_added(const OwnedWork& w, const std::vector<OwnedPart>& parts)
{
  const ProductSize s = w.size();
  std::vector<int> times(s.m * s.n * s.k);
  for (int rank = 0; rank < w.c.ranks(); ++rank)
  {
    Places left;
    std::map<std::size_t, Places> places;
    for (const auto& t : product_in_place(w, parts, rank).tiles)
    {
      if (!t.same_a) left = together(w.a, t.a, {t.size.m, t.size.k});
      auto& right = places[t.b_place];
      if (!t.same_b) right = together(w.b, t.b, {t.size.k, t.size.n});
      // A and B agree on the inner indices, A and C on rows, B and C on columns.
      for (std::size_t i = 0; i < t.size.m; ++i)
        for (std::size_t j = 0; j < t.size.n; ++j)
          for (std::size_t k = 0; k < t.size.k; ++k)
          {
            const std::size_t x = left[i * t.size.k + k];
            const std::size_t y = right[k * t.size.n + j];
            CHECK(x % s.k == y / s.n);
            CHECK(x / s.k == w.c[t.c.rank].rows.offset + t.c.i + i);
            CHECK(y % s.n == w.c[t.c.rank].cols.offset + t.c.j + j);
            ++times[(x / s.k * s.n + y % s.n) * s.k + x % s.k];
          }
    }
  }
  return times;
}

/// How often each element of its block a rank makes, is written, or is copied.
std::vector<int> times_given(const OwnedWork& w, const std::vector<OwnedPart>& parts, int rank)
{
  const Block block = w.c[rank];
  std::vector<int> times(block.valid().size());
  const auto add = [&](std::size_t i0, std::size_t j0, Shape shape) {
    for (std::size_t i = 0; i < shape.rows; ++i)
      for (std::size_t j = 0; j < shape.cols; ++j) ++times[(i0 + i) * block.cols.valid + j0 + j];
  };
  for (int maker = 0; maker < w.c.ranks(); ++maker)
    for (const auto& t : product_in_place(w, parts, maker).tiles)
      if (t.c.rank == rank && t.first) add(t.c.i, t.c.j, {t.size.m, t.size.n});
  for (const auto& share : product_in_place(w, parts, rank).shares)
    add(share.to.i, share.to.j, share.shape);
  return times;
}

/// How often each product of two elements comes into each rank's C by a cut, C's elements
/// in the order of ranks.
void check_sums(const Placement& a, const Placement& b, const Placement& c, const WorkCut& cut)
{
  const auto inner = static_cast<int>(a.shape().cols);
  std::vector<OwnedProduct> products;
  for (int rank = 0; rank < c.ranks(); ++rank)
    products.push_back(product_by_cut({a, b, c, cut.workers()}, cut, rank));
  for (int rank = 0; rank < c.ranks(); ++rank)
  {
    const auto& mine = products[static_cast<std::size_t>(rank)];
    CHECK(mine.rooms);
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
            if (t.c.rank == share.from.rank && t.c.i <= share.from.i + i &&
                share.from.i + i < t.c.i + t.size.m && t.c.j <= share.from.j + j &&
                share.from.j + j < t.c.j + t.size.n)
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
        for (const std::size_t workers : {1U, 2U, 3U, 4U})
        {
          const OwnedWork w{a, b, c, workers};
          std::vector<std::vector<OwnedPart>> all_parts{parts_of_each(w)};
          if (const auto some = parts_of_workers(w); !some.empty()) all_parts.push_back(some);
          for (const auto& parts : all_parts)
          {
            CHECK(times_added(w, parts) == std::vector<int>(s.m * s.n * s.k, 1));
            for (int rank = 0; rank < c.ranks(); ++rank)
              CHECK(times_given(w, parts, rank) == std::vector<int>(c[rank].valid().size(), 1));
          }
        }
    }
}

TEST_CASE("So do tiles in strips")
{
  const ProductSize s{700, 6, 6};
  GemmTimes times;
  times.cached = 128 * 12;
  for (const std::size_t replicas : {1U, 2U})
    for (const auto& c : {blocks({s.m, s.n}, 1, 6, replicas), blocks({s.m, s.n}, 3, 2, replicas)})
    {
      CAPTURE(replicas, c[0].rows.size);
      const auto a = blocks({s.m, s.k}, 2, 3, replicas);
      const auto b = blocks({s.k, s.n}, 3, 2, replicas);
      const OwnedWork w{a, b, c, 2, times};
      const auto parts = parts_of_workers(w);
      REQUIRE_FALSE(parts.empty());
      const auto& first = product_in_place(w, parts, 0).tiles;
      CHECK(std::any_of(first.begin(), first.end(), [](const auto& t) { return t.same_a; }));
      CHECK(times_added(w, parts) == std::vector<int>(s.m * s.n * s.k, 1));
      for (int rank = 0; rank < c.ranks(); ++rank)
        CHECK(times_given(w, parts, rank) == std::vector<int>(c[rank].valid().size(), 1));
    }
}

TEST_CASE("The parts of a cut have every product of two elements once, on every replica")
{
  for (const ProductSize s : {ProductSize{7, 9, 11}, ProductSize{8, 4, 16}, ProductSize{1, 2, 3}})
    for (const WorkCut cut : {WorkCut{1, 1, 12}, WorkCut{2, 3, 2}, WorkCut{3, 1, 4},
                              WorkCut{1, 2, 1}, WorkCut{1, 1, 5}})
    {
      CAPTURE(s.m, s.n, s.k, cut.m, cut.n, cut.k);
      check_sums(blocks({s.m, s.k}, 2, 3, 2), blocks({s.k, s.n}, 3, 4), blocks({s.m, s.n}, 2, 3, 2),
                 cut);
      check_sums(blocks({s.m, s.k}, 1, 12), blocks({s.k, s.n}, 12, 1), blocks({s.m, s.n}, 1, 12),
                 cut);
    }
}

TEST_CASE("As many ranks work as there are cores, where that is faster")
{
  const auto grid = [](ProductSize s, int cores, std::size_t rows, std::size_t cols, int rank) {
    return owned_product(blocks({s.m, s.k}, rows, cols), blocks({s.k, s.n}, rows, cols),
                         blocks({s.m, s.n}, rows, cols), rank, cores, sizeof(double));
  };
  // A core each: everyone makes its own block.
  const auto own = grid({2048, 2048, 2048}, 4, 2, 2, 3);
  CHECK_FALSE(own.writes_c);
  CHECK_FALSE(own.rooms);
  CHECK(own.tiles.size() == 2);
  // Two cores: two ranks make two blocks each.
  for (const int rank : {0, 1, 2, 3})
  {
    const auto product = grid({2048, 2048, 2048}, 2, 2, 2, rank);
    CHECK(product.writes_c);
    CHECK(product.tiles.size() == (rank % 2 == 0 ? 4 : 0));
    CHECK(product.shares.empty());
  }
  // Too small to wait for each other once more.
  CHECK_FALSE(grid({64, 64, 64}, 2, 2, 2, 0).writes_c);
  CHECK_FALSE(grid({16, 16, 512}, 2, 8, 1, 0).rooms);
  CHECK_FALSE(grid({0, 0, 0}, 2, 2, 2, 0).rooms);
  // Blocks that are strips, and a result of few elements, are cut another way.
  CHECK(grid({4096, 4096, 4096}, 64, 64, 1, 0).rooms);
  CHECK(grid({4096, 4096, 4096}, 64, 1, 64, 0).rooms);
  CHECK(grid({256, 256, 65536}, 4, 2, 2, 0).room == Shape{256, 256});
  CHECK(grid({256, 256, 65536}, 2, 2, 4, 0).room == Shape{256, 256});
  // One row of 64 is rank 0's on 8 x 1 ranks, and made by all.
  CHECK_FALSE(grid({1, 64, 1 << 20}, 8, 8, 1, 7).tiles.empty());
}

TEST_CASE("Rooms pay sooner for floats, of which copies take less")
{
  const auto rooms = [](std::size_t scalar_bytes) {
    return owned_product(blocks({2048, 2048}, 4, 2), blocks({2048, 2048}, 2, 2, 2),
                         blocks({2048, 2048}, 4, 2), 0, 2, scalar_bytes)
        .rooms;
  };
  CHECK(rooms(sizeof(float)));
  CHECK_FALSE(rooms(sizeof(double)));
}

TEST_CASE("Replicas leave their block to as many of them as there are cores")
{
  const auto c = blocks({512, 512}, 1, 1, 4);
  const auto a = blocks({512, 4096}, 2, 2);
  const auto b = blocks({4096, 512}, 2, 2);
  const OwnedWork w{a, b, c, 2};
  const auto parts = parts_of_workers(w);
  REQUIRE(parts.size() == 2);
  for (std::size_t i = 0; i < 2; ++i)
  {
    CHECK(parts[i].part.rows == Range{256 * i, 256, 256});
    CHECK(parts[i].owner == static_cast<int>(2 * i));
    CHECK(parts[i].maker == static_cast<int>(2 * i));
  }
  CHECK(product_in_place(w, parts, 0).shares.size() == 1);
  CHECK(product_in_place(w, parts, 1).shares.size() == 2);
  // Not where that leaves one more to do than another.
  CHECK(parts_of_workers({a, b, blocks({512, 512}, 4, 1), 3}).empty());
  CHECK(parts_of_workers({a, b, c, 3}).size() == 3);
}

TEST_CASE("A factor is read by others unless each rank has all that its block needs")
{
  const auto reads = [](const Placement& a, const Placement& b, const Placement& c) {
    const auto product = owned_product(a, b, c, 0, c.ranks(), 8);
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
  const auto stored = owned_product(b.t(), a.t(), blocks({s.n, s.m}, 3, 2), 4, 6, 8);
  const auto swapped = owned_product(a, b, blocks({s.n, s.m}, 3, 2, 1, true), 4, 6, 8);
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
  std::size_t made = 0;
  for (int rank = 0; rank < 3; ++rank)
  {
    const auto product = owned_product(a, b, c, rank, 3, 8);
    CHECK(product.shared);
    CHECK(product.shares.size() == 2);
    for (const auto& t : product.tiles)
    {
      CHECK(t.c.i == rows);
      CHECK(t.a.front().at.rank == rank);
      if (t.first) made += t.size.m;
    }
    rows = made;
  }
  CHECK(rows == 10);
  CHECK_FALSE(owned_product(a, b, blocks({10, 4}, 3, 1), 0, 3, 8).shared);
}

TEST_CASE("A rank without elements, and a product without inner indices, have no tiles")
{
  const auto none =
      owned_product(blocks({1, 4}, 2, 1), blocks({4, 4}, 1, 2), blocks({1, 4}, 2, 1), 1, 2, 8);
  CHECK(none.tiles.empty());
  CHECK(none.hollow.empty());
  const auto hollow =
      owned_product(blocks({4, 0}, 2, 1), blocks({0, 4}, 1, 2), blocks({4, 4}, 2, 1), 1, 2, 8);
  CHECK(hollow.tiles.empty());
  CHECK(hollow.hollow.shape == Shape{2, 4});
}
