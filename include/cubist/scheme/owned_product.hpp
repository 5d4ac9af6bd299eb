// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What each rank does for C = A B where all ranks can read each other's blocks: which pieces of A
// and B it multiplies, into what, and what it takes from others afterwards.
//
//   A (M, K), B (K, N), C (M, N): any layouts
//
//   1. each rank multiplies into its own block of C (owned_tiles.hpp); replicas of a block make a
//      share of its rows each, and copy the others';
//   2. or, where that would leave strips to multiply (work_cut.hpp), each rank makes its part of
//      the work into a sum of its own, and the owners of C add up those that they need.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/dist/placement.hpp"
#include "cubist/scheme/owned_tiles.hpp"
#include "cubist/scheme/work_cut.hpp"

namespace cubist::detail
{

/// What one rank does for C = A B. Corners of C count in its stored block, or in the sum of its
/// own that it makes where the inner indices are cut.
struct OwnedProduct
{
  /// What another rank has made of this rank's block.
  struct Share
  {
    Corner from;
    Corner to;
    Shape shape;
    bool first = true;  // of several that are added up here
  };

  std::vector<OwnedTile> tiles;
  Rectangle mine;       // what the tiles write
  bool sums = false;    // whether that is a sum of its own, not C
  Shape room;           // for a sum; the same on all ranks
  bool shared = false;  // whether any rank takes shares from others
  bool reads_a = true;  // whether any rank reads another's block of A
  bool reads_b = true;
  std::vector<Share> shares;
};

/// Part i of p of a block, cut between rows.
[[nodiscard]] inline Block rows_of(const Block& whole, std::size_t i, std::size_t p)
{
  const std::size_t begin = whole.rows.valid * i / p;
  const std::size_t end = whole.rows.valid * (i + 1) / p;
  return {{whole.rows.offset + begin, end - begin, end - begin}, whole.cols};
}

/// Whether a block has all of these rows and columns.
[[nodiscard]] inline bool holds(const Block& block, const Range& rows, const Range& cols)
{
  const auto within = [](const Range& r, const Range& all) {
    return r.valid == 0 || (all.offset <= r.offset && r.offset + r.valid <= all.offset + all.valid);
  };
  return within(rows, block.rows) && within(cols, block.cols);
}

/// Each rank multiplies into its block of C, or into its share of that.
[[nodiscard]] inline OwnedProduct product_in_place(const Placement& a, const Placement& b,
                                                   const Placement& c, int rank)
{
  OwnedProduct product;
  const Block whole = c[rank];
  Block mine;
  for (const auto& [_, replicas] : c.holders())
  {
    product.shared = product.shared || replicas.size() > 1;
    if (std::find(replicas.begin(), replicas.end(), rank) == replicas.end()) continue;
    for (std::size_t i = 0; i < replicas.size(); ++i)
    {
      const Block part = rows_of(whole, i, replicas.size());
      const std::size_t row = part.rows.offset - whole.rows.offset;
      if (replicas[i] == rank)
        mine = part, product.mine = {row, 0, part.valid()};
      else
        product.shares.push_back({{replicas[i], row, 0}, {rank, row, 0}, part.valid()});
    }
  }
  const Range inner{0, a.shape().cols, a.shape().cols};
  product.reads_a = product.reads_b = false;
  for (int r = 0; r < c.ranks(); ++r)
  {
    if (c[r].valid().size() == 0) continue;
    product.reads_a = product.reads_a || !holds(a[r], c[r].rows, inner);
    product.reads_b = product.reads_b || !holds(b[r], inner, c[r].cols);
  }
  product.tiles = owned_tiles(a, b, mine, inner, {whole.rows.offset, whole.cols.offset, {}}, rank);
  return product;
}

/// Each rank multiplies its part of the work into a sum of its own; owners add these up.
[[nodiscard]] inline OwnedProduct product_by_sums(const Placement& a, const Placement& b,
                                                  const Placement& c, int rank, const WorkCut& cut)
{
  const ProductSize size{c.shape().rows, c.shape().cols, a.shape().cols};
  const auto range = [](std::size_t n, std::size_t parts, std::size_t i) {
    return block_range(n, pad(n, parts), parts, i);
  };
  const auto work = [&](std::size_t r) {
    return Block{range(size.m, cut.m, r / cut.n % cut.m), range(size.n, cut.n, r % cut.n)};
  };
  const auto inner = [&](std::size_t r) { return range(size.k, cut.k, r / cut.n / cut.m); };

  OwnedProduct product;
  product.sums = product.shared = true;
  const auto me = static_cast<std::size_t>(rank);
  const Block part = work(me);
  product.mine = {0, 0, part.valid()};
  product.room = part.padded();
  product.tiles =
      owned_tiles(a, b, part, inner(me), {part.rows.offset, part.cols.offset, {}}, rank);

  const Block whole = c[rank];
  for (std::size_t r = 0; r < cut.m * cut.n * cut.k; ++r)
  {
    const Block made = work(r);
    const Rectangle common = intersection(made, whole);
    if (common.empty() || inner(r).valid == 0) continue;
    product.shares.push_back(
        {{static_cast<int>(r), common.i - made.rows.offset, common.j - made.cols.offset},
         {rank, common.i - whole.rows.offset, common.j - whole.cols.offset},
         common.shape,
         r < cut.m * cut.n});
  }
  return product;
}

[[nodiscard]] inline OwnedProduct owned_product(const Placement& a, const Placement& b,
                                                const Placement& c, int rank)
{
  // C^T = B^T A^T
  if (c.transposed()) return owned_product(b.t(), a.t(), c.t(), rank);

  const ProductSize size{c.shape().rows, c.shape().cols, a.shape().cols};
  const auto ranks = static_cast<std::size_t>(c.ranks());
  const Shape block = c[0].padded();
  const std::size_t blocks =
      block.size() == 0 ? 1 : ceil_div(size.m, block.rows) * ceil_div(size.n, block.cols);
  const std::size_t replicas = std::max<std::size_t>(1, ranks / std::max<std::size_t>(1, blocks));
  const auto cut = better_cut(size, ranks, {ceil_div(block.rows, replicas), block.cols, size.k});
  return cut ? product_by_sums(a, b, c, rank, *cut) : product_in_place(a, b, c, rank);
}

}  // namespace cubist::detail
