// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What each rank does for C = A B where all ranks can read and write each other's blocks: which
// pieces of A and B it multiplies, where it writes the result, and what it reads from its peers
// afterwards.
//
//   A (M, K), B (K, N), C (M, N): any layouts
//
// Of three ways, the one that a model of time finds the fastest:
//
//   per rank    each rank multiplies into its own block of C; replicas of a block compute a share
//               of its rows each, and copy the others' shares;
//   per worker  as many ranks as there are cores compute all parts. Ranks that take turns on a core
//               empty each other's caches, and replicas need not cut their block into more shares
//               than there are workers;
//   by cut      the work is cut in another way than C (work_cut.hpp): each worker computes its part
//               in a workspace, and the replica_map of C copy or add up what they need. That pays
//               where blocks or pieces are too small for the gemm kernel.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/algorithm/direct/row_blocking.hpp"
#include "cubist/algorithm/direct/work_cut.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What one rank does for C = A B.
struct WorkAssignment
{
  /// What a peer computes, in its block of C or in its workspace, of this rank's block.
  struct PeerPart
  {
    Corner from;
    Corner to;
    Shape shape;
    bool first = true;  // of several that are added up here
  };

  std::vector<BlockProduct> products;
  Rectangle zero_k;           // of this rank's block, what no product writes because K is 0
  bool writes_c = false;      // whether any rank writes to another's block of C
  bool in_workspace = false;  // whether products are computed in workspaces, not in C
  Shape workspace;            // of a worker; the same on all ranks
  bool reads_a = true;        // whether any rank reads another's block of A
  bool reads_b = true;
  bool reads_c = false;  // whether any rank reads another's block of C, or its workspace
  std::vector<PeerPart> peer_parts;
  /// Predicted, in units of `GemmRates`: the time of all, and that of the products in it.
  double time = 0;
  double products_time = 0;
};

/// A product, and how many ranks multiply at a time.
struct SharedWork
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
  /// The rank of a worker; workers are far apart, as neighbouring ranks may share caches.
  [[nodiscard]] int rank_of(std::size_t worker, std::size_t of) const
  {
    return static_cast<int>(worker * static_cast<std::size_t>(c.ranks()) / of);
  }
};

/// Part i of p of a block, cut between rows.
[[nodiscard]] inline Block row_part(const Block& whole, std::size_t i, std::size_t p)
{
  const std::size_t begin = whole.rows.valid * i / p;
  const std::size_t end = whole.rows.valid * (i + 1) / p;
  return {{whole.rows.offset + begin, end - begin, end - begin}, whole.cols};
}

/// Whether a block has all of these rows and columns.
[[nodiscard]] inline bool contains(const Block& block, const Range& rows, const Range& cols)
{
  const auto within = [](const Range& r, const Range& all) {
    return r.valid == 0 || (all.offset <= r.offset && r.offset + r.valid <= all.offset + all.valid);
  };
  return within(rows, block.rows) && within(cols, block.cols);
}

/// A part of a block of C, the rank that holds the block, and the rank that computes the part.
struct AssignedPart
{
  Block part;
  int holder;
  int worker;
};

/// Each rank computes its block, or its share of a replicated one.
[[nodiscard]] inline std::vector<AssignedPart> parts_per_rank(const SharedWork& w)
{
  std::vector<AssignedPart> all;
  for (const auto& [_, replicas] : w.c.replica_map())
    for (std::size_t i = 0; i < replicas.size(); ++i)
      all.push_back({row_part(w.c[replicas[i]], i, replicas.size()), replicas[i], replicas[i]});
  return all;
}

/// Each worker computes equally many parts; empty if they can't be shared out so.
[[nodiscard]] inline std::vector<AssignedPart> parts_per_worker(const SharedWork& w)
{
  const auto& replica_map = w.c.replica_map();
  if (replica_map.empty()) return {};
  const std::size_t shares = std::max<std::size_t>(1, w.workers / replica_map.size());
  const std::size_t parts = shares * replica_map.size();
  if (parts % w.workers != 0) return {};
  std::vector<AssignedPart> all;
  for (const auto& [_, replicas] : replica_map)
    for (std::size_t i = 0; i < shares; ++i)
    {
      if (shares > replicas.size()) return {};
      const int holder = replicas[i * replicas.size() / shares];
      const int worker = w.rank_of(all.size() * w.workers / parts, w.workers);
      all.push_back({row_part(w.c[holder], i, shares), holder, worker});
    }
  return all;
}

/// Where a part begins in its holder's block of C.
[[nodiscard]] inline Corner corner_of(const SharedWork& w, const AssignedPart& p)
{
  return {p.holder, p.part.rows.offset - w.c[p.holder].rows.offset, 0};
}

/// What its worker multiplies for a part.
[[nodiscard]] inline std::vector<BlockProduct> products_of(const SharedWork& w,
                                                           const AssignedPart& p)
{
  return block_products(w.a, w.b, p.part, w.inner(), corner_of(w, p), p.worker, w.times);
}

/// Which windows ranks open where parts are computed in blocks of C, and copied to other replicas.
[[nodiscard]] inline WorkAssignment windows_in_place(const SharedWork& w,
                                                     const std::vector<AssignedPart>& parts)
{
  WorkAssignment work;
  work.reads_a = work.reads_b = false;
  for (const auto& [_, replicas] : w.c.replica_map())
    work.reads_c = work.reads_c || replicas.size() > 1;
  for (const auto& [part, holder, worker] : parts)
  {
    work.writes_c = work.writes_c || worker != holder;
    work.reads_a = work.reads_a || !contains(w.a[worker], part.rows, w.inner());
    work.reads_b = work.reads_b || !contains(w.b[worker], w.inner(), part.cols);
  }
  return work;
}

/// Parts are computed in blocks of C, and copied to the other replicas.
[[nodiscard]] inline WorkAssignment
assign_in_place(const SharedWork& w, const std::vector<AssignedPart>& parts, int rank)
{
  WorkAssignment work = windows_in_place(w, parts);
  const Block whole = w.c[rank];
  std::vector<TargetPart> targets;
  for (const auto& p : parts)
  {
    if (p.worker == rank) targets.push_back({p.part, corner_of(w, p)});
    if (w.c[p.holder] != whole) continue;
    const Corner from = corner_of(w, p);
    if (p.holder == rank && w.size().k == 0) work.zero_k = {from.i, 0, p.part.valid()};
    if (p.holder != rank) work.peer_parts.push_back({from, {rank, from.i, 0}, p.part.valid()});
  }
  work.products = products_of_parts(w.a, w.b, targets, w.inner(), rank, w.times);
  return work;
}

/// Workers compute the parts of a cut in workspaces; the replica_map of C read what is theirs.
[[nodiscard]] inline WorkAssignment assign_by_cut(const SharedWork& w, const WorkCut& cut, int rank)
{
  const ProductSize size = w.size();
  WorkAssignment work;
  work.in_workspace = work.reads_c = true;
  work.workspace = cut.block(size, 0).padded();
  const Block whole = w.c[rank];
  for (std::size_t i = 0; i < cut.workers(); ++i)
  {
    const Block part = cut.block(size, i);
    const Range inner = cut.inner(size, i);
    const int worker = w.rank_of(i, cut.workers());
    if (worker == rank)
      work.products = products_of_parts(w.a, w.b, {{part, {worker, 0, 0}}}, inner, rank, w.times);
    const Rectangle common = intersection(part, whole);
    if (common.empty() || inner.valid == 0) continue;
    work.peer_parts.push_back({{worker, common.i - part.rows.offset, common.j - part.cols.offset},
                               {rank, common.i - whole.rows.offset, common.j - whole.cols.offset},
                               common.shape,
                               i < cut.m * cut.n});
  }
  return work;
}

[[nodiscard]] inline double time_of(const SharedWork& w, const std::vector<BlockProduct>& products)
{
  double all = 0;
  for (const auto& p : products) all += time_of(p, w.times);
  return all;
}

/// The time of its windows: each synchronises all ranks twice.
[[nodiscard]] inline double time_of_windows(const SharedWork& w, const WorkAssignment& work,
                                            const GemmRates& rates)
{
  const int windows = work.reads_a + work.reads_b + work.writes_c + work.reads_c;
  return rates.window * windows * w.c.ranks();
}

/// What `rank` does, in the way that takes the least time.
/// @param cores that the ranks share
[[nodiscard]] inline WorkAssignment assign_work(const Placement& a, const Placement& b,
                                                const Placement& c, int rank, int cores,
                                                std::size_t scalar_bytes,
                                                const GemmRates& rates = {})
{
  // C^T = B^T A^T
  if (c.transposed()) return assign_work(b.t(), a.t(), c.t(), rank, cores, scalar_bytes, rates);

  const SharedWork w{a, b, c, static_cast<std::size_t>(std::min(c.ranks(), cores)),
                     GemmTimes::of(scalar_bytes, rates)};
  const double turns = c.ranks() / static_cast<double>(w.workers);

  auto parts = parts_per_rank(w);
  if (parts.empty()) return assign_in_place(w, parts, rank);
  const auto windows = windows_in_place(w, parts);
  const bool synchronises = windows.reads_a || windows.reads_b || windows.reads_c;
  // No part takes longer than the first.
  double products_time = time_of(w, products_of(w, parts.front())) * turns *
                         (turns > 1 && synchronises ? rates.shared_core : 1);
  double least = products_time + time_of_windows(w, windows, rates);
  const auto of_workers = parts_per_worker(w);
  if (turns > 1 && !of_workers.empty())
  {
    const auto of_one = static_cast<double>(of_workers.size() / w.workers);
    const double products = time_of(w, products_of(w, of_workers.front())) * of_one;
    const double time = products + time_of_windows(w, windows_in_place(w, of_workers), rates);
    if (time < least) least = time, products_time = products, parts = of_workers;
  }
  std::optional<WorkCut> best;
  for (const WorkCut& cut : work_cuts(w.workers))
  {
    const auto work = assign_by_cut(w, cut, 0);
    const double copies = cut.k > 1 ? 4 : 3;  // reads of what caches no longer hold
    const double products = time_of(w, work.products);
    const double time = products + time_of_windows(w, work, rates) +
                        copies * w.times.copy * static_cast<double>(work.workspace.size());
    if (time < least) least = time, products_time = products, best = cut;
  }
  auto work = best ? assign_by_cut(w, *best, rank) : assign_in_place(w, parts, rank);
  work.time = least;
  work.products_time = products_time;
  return work;
}

}  // namespace cubist::CUBIST_ABI::detail
