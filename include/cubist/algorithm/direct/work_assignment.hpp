// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What each rank does for C = A B where all ranks can read and write each other's blocks: which
// pieces of A and B it multiplies, into what, and what it takes from others afterwards.
//
//   A (M, K), B (K, N), C (M, N): any layouts
//
//   each   rank multiplies into its own block of C; replicas make a share of the rows each, and
//          copy the others';
//   some   ranks, as many as there are cores, do so for all: ranks that take turns on a core empty
//          each other's caches, and replicas need not share their block among more workers than
//          there are;
//   cut    the work has another cut than C (work_cut.hpp): each worker makes its part in a room of
//          its own, and the owners of C copy what they need, or add it up. That pays where blocks
//          or pieces are too small for the gemm kernel.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/algorithm/direct/row_blocking.hpp"
#include "cubist/algorithm/direct/work_cut.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::detail
{

/// What one rank does for C = A B.
struct OwnedProduct
{
  /// What is in another rank's block of C, or in its room, of this rank's block.
  struct Share
  {
    Corner from;
    Corner to;
    Shape shape;
    bool first = true;  // of several that are added up here
  };

  std::vector<OwnedTile> tiles;
  Rectangle hollow;       // of this rank's block, what no tile makes for want of inner indices
  bool writes_c = false;  // whether any rank writes to another's block of C
  bool rooms = false;     // whether tiles are made in rooms, not in C
  Shape room;             // of a worker; the same on all ranks
  bool shared = false;    // whether any rank takes shares from others
  bool reads_a = true;    // whether any rank reads another's block of A
  bool reads_b = true;
  std::vector<Share> shares;
};

/// A product, and how many ranks at a time can multiply.
struct OwnedWork
{
  const Placement& a;
  const Placement& b;
  const Placement& c;
  std::size_t workers;  // no more than ranks
  GemmTimes times = {};

  [[nodiscard]] ProductSize size() const
  {
    return {c.shape().rows, c.shape().cols, a.shape().cols};
  }
  [[nodiscard]] Range inner() const { return {0, size().k, size().k}; }
  /// The ranks that work, apart from each other, as ranks that follow each other may share caches.
  [[nodiscard]] int rank_of(std::size_t worker, std::size_t of) const
  {
    return static_cast<int>(worker * static_cast<std::size_t>(c.ranks()) / of);
  }
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

/// A part of a block of C: who makes it, and in whose block.
struct OwnedPart
{
  Block part;
  int owner;
  int maker;
};

/// Each rank makes its block, or its share of that.
[[nodiscard]] inline std::vector<OwnedPart> parts_of_each(const OwnedWork& w)
{
  std::vector<OwnedPart> all;
  for (const auto& [_, replicas] : w.c.holders())
    for (std::size_t i = 0; i < replicas.size(); ++i)
      all.push_back({rows_of(w.c[replicas[i]], i, replicas.size()), replicas[i], replicas[i]});
  return all;
}

/// Workers make as many parts each; none if they can't.
[[nodiscard]] inline std::vector<OwnedPart> parts_of_workers(const OwnedWork& w)
{
  const auto& holders = w.c.holders();
  if (holders.empty()) return {};
  const std::size_t shares = std::max<std::size_t>(1, w.workers / holders.size());
  const std::size_t parts = shares * holders.size();
  if (parts % w.workers != 0) return {};
  std::vector<OwnedPart> all;
  for (const auto& [_, replicas] : holders)
    for (std::size_t i = 0; i < shares; ++i)
    {
      if (shares > replicas.size()) return {};
      const int owner = replicas[i * replicas.size() / shares];
      const int maker = w.rank_of(all.size() * w.workers / parts, w.workers);
      all.push_back({rows_of(w.c[owner], i, shares), owner, maker});
    }
  return all;
}

/// Where a part begins in its owner's block of C.
[[nodiscard]] inline Corner corner_of(const OwnedWork& w, const OwnedPart& p)
{
  return {p.owner, p.part.rows.offset - w.c[p.owner].rows.offset, 0};
}

/// What its maker multiplies for a part.
[[nodiscard]] inline std::vector<OwnedTile> tiles_of(const OwnedWork& w, const OwnedPart& p)
{
  return owned_tiles(w.a, w.b, p.part, w.inner(), corner_of(w, p), p.maker, w.times);
}

/// What ranks expose where parts are made in blocks of C, and copied to the other replicas.
[[nodiscard]] inline OwnedProduct loans_in_place(const OwnedWork& w,
                                                 const std::vector<OwnedPart>& parts)
{
  OwnedProduct product;
  product.reads_a = product.reads_b = false;
  for (const auto& [_, replicas] : w.c.holders())
    product.shared = product.shared || replicas.size() > 1;
  for (const auto& [part, owner, maker] : parts)
  {
    product.writes_c = product.writes_c || maker != owner;
    product.reads_a = product.reads_a || !holds(w.a[maker], part.rows, w.inner());
    product.reads_b = product.reads_b || !holds(w.b[maker], w.inner(), part.cols);
  }
  return product;
}

/// Parts are made in blocks of C, and copied to the other replicas.
[[nodiscard]] inline OwnedProduct product_in_place(const OwnedWork& w,
                                                   const std::vector<OwnedPart>& parts, int rank)
{
  OwnedProduct product = loans_in_place(w, parts);
  const Block whole = w.c[rank];
  std::vector<OwnedTarget> made;
  for (const auto& p : parts)
  {
    if (p.maker == rank) made.push_back({p.part, corner_of(w, p)});
    if (w.c[p.owner] != whole) continue;
    const Corner from = corner_of(w, p);
    if (p.owner == rank && w.size().k == 0) product.hollow = {from.i, 0, p.part.valid()};
    if (p.owner != rank) product.shares.push_back({from, {rank, from.i, 0}, p.part.valid()});
  }
  product.tiles = tiles_of_parts(w.a, w.b, made, w.inner(), rank, w.times);
  return product;
}

/// Workers make the parts of a cut in rooms; owners take what is theirs.
[[nodiscard]] inline OwnedProduct product_by_cut(const OwnedWork& w, const WorkCut& cut, int rank)
{
  const ProductSize size = w.size();
  OwnedProduct product;
  product.rooms = product.shared = true;
  product.room = cut.block(size, 0).padded();
  const Block whole = w.c[rank];
  for (std::size_t i = 0; i < cut.workers(); ++i)
  {
    const Block made = cut.block(size, i);
    const Range inner = cut.inner(size, i);
    const int worker = w.rank_of(i, cut.workers());
    if (worker == rank)
      product.tiles = tiles_of_parts(w.a, w.b, {{made, {worker, 0, 0}}}, inner, rank, w.times);
    const Rectangle common = intersection(made, whole);
    if (common.empty() || inner.valid == 0) continue;
    product.shares.push_back({{worker, common.i - made.rows.offset, common.j - made.cols.offset},
                              {rank, common.i - whole.rows.offset, common.j - whole.cols.offset},
                              common.shape,
                              i < cut.m * cut.n});
  }
  return product;
}

[[nodiscard]] inline double time_of(const OwnedWork& w, const std::vector<OwnedTile>& tiles)
{
  double all = 0;
  for (const auto& tile : tiles) all += time_of(tile, w.times);
  return all;
}

/// The time of its windows; for each of them all ranks wait for each other twice.
[[nodiscard]] inline double time_of_loans(const OwnedWork& w, const OwnedProduct& product)
{
  const int windows = product.reads_a + product.reads_b + product.writes_c + product.shared;
  return 32768.0 * windows * w.c.ranks();
}

/// What `rank` does in the way that is the fastest.
/// @param cores that the ranks share
[[nodiscard]] inline OwnedProduct owned_product(const Placement& a, const Placement& b,
                                                const Placement& c, int rank, int cores,
                                                std::size_t scalar_bytes)
{
  // C^T = B^T A^T
  if (c.transposed()) return owned_product(b.t(), a.t(), c.t(), rank, cores, scalar_bytes);

  constexpr double of_caches_emptied = 1.04;  // by ranks that take turns on a core
  const OwnedWork w{a, b, c, static_cast<std::size_t>(std::min(c.ranks(), cores)),
                    GemmTimes::of(scalar_bytes)};
  const double turns = c.ranks() / static_cast<double>(w.workers);

  auto parts = parts_of_each(w);
  if (parts.empty()) return product_in_place(w, parts, rank);
  const auto each = loans_in_place(w, parts);
  const bool meet = each.reads_a || each.reads_b || each.shared;
  // No part takes longer than the first.
  double least =
      time_of(w, tiles_of(w, parts.front())) * turns * (turns > 1 && meet ? of_caches_emptied : 1) +
      time_of_loans(w, each);
  const auto of_workers = parts_of_workers(w);
  if (turns > 1 && !of_workers.empty())
  {
    const auto of_one = static_cast<double>(of_workers.size() / w.workers);
    const double time = time_of(w, tiles_of(w, of_workers.front())) * of_one +
                        time_of_loans(w, loans_in_place(w, of_workers));
    if (time < least) least = time, parts = of_workers;
  }
  std::optional<WorkCut> best;
  for (const WorkCut& cut : work_cuts(w.workers))
  {
    const auto made = product_by_cut(w, cut, 0);
    const double copies = cut.k > 1 ? 4 : 3;  // caches have lost what owners take
    const double time = time_of(w, made.tiles) + time_of_loans(w, made) +
                        copies * w.times.copy * static_cast<double>(made.room.size());
    if (time < least) least = time, best = cut;
  }
  return best ? product_by_cut(w, *best, rank) : product_in_place(w, parts, rank);
}

}  // namespace cubist::detail
