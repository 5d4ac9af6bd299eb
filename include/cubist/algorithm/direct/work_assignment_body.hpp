// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Defines the functions of work_assignment.hpp that the compiled library contains.

#include <algorithm>
#include <optional>
#include <utility>

#include "cubist/algorithm/direct/block_products_body.hpp"
#include "cubist/algorithm/direct/work_assignment.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE std::vector<WorkCut> work_cuts(std::size_t workers)
{
  std::vector<WorkCut> all;
  for (std::size_t k = 1; k <= workers; ++k)
    for (std::size_t m = 1; workers % k == 0 && m <= workers / k; ++m)
      if (workers / k % m == 0) all.push_back({m, workers / k / m, k});
  return all;
}

/// A product, and the number of ranks that multiply at a time.
struct SharedWork
{
  const Placement& a;
  const Placement& b;
  const Placement& c;
  std::size_t workers;  // at most as many as ranks
  GemmTimes times = {};
  GemmRates rates = {};

  [[nodiscard]] ProductSize size() const
  {
    return {c.shape().rows, c.shape().cols, a.shape().cols};
  }
  [[nodiscard]] Range inner() const { return {0, size().k, size().k}; }
  /// Returns the rank of a worker. Workers are far apart, because neighbouring ranks may share
  /// caches.
  [[nodiscard]] int rank_of(std::size_t worker, std::size_t of) const
  {
    return static_cast<int>(worker * static_cast<std::size_t>(c.ranks()) / of);
  }
  /// The number of ranks that take turns on a core.
  [[nodiscard]] double turns() const { return c.ranks() / static_cast<double>(workers); }

  /// Returns the predicted time of products that run one after the other.
  [[nodiscard]] double time_of(const std::vector<BlockProduct>& products) const
  {
    double all = 0;
    for (const auto& p : products) all += p.time(times);
    return all;
  }
  /// Returns the predicted time of the windows; each synchronises all ranks twice.
  [[nodiscard]] double time_of_windows(const WorkAssignment& work) const
  {
    const int windows = work.reads_a + work.reads_b + work.writes_c + work.reads_c;
    return rates.window * windows * c.ranks();
  }
};

// Per rank and per worker: parts of C that are computed in place.

/// A part of a block of C, the rank that holds the block, and the rank that computes the part.
struct AssignedPart
{
  Block part;
  int holder;
  int worker;
};

/// Returns share i of p of a block, cut between rows.
[[nodiscard]] inline Block row_part(const Block& whole, std::size_t i, std::size_t p)
{
  const std::size_t begin = whole.rows.valid * i / p;
  const std::size_t end = whole.rows.valid * (i + 1) / p;
  return {{whole.rows.offset + begin, end - begin, end - begin}, whole.cols};
}

/// Assigns to each rank its own block, or its share of a replicated one.
[[nodiscard]] inline std::vector<AssignedPart> parts_per_rank(const SharedWork& w)
{
  std::vector<AssignedPart> all;
  for (const auto& [_, replicas] : w.c.replica_map())
    for (std::size_t i = 0; i < replicas.size(); ++i)
      all.push_back({row_part(w.c[replicas[i]], i, replicas.size()), replicas[i], replicas[i]});
  return all;
}

/// Assigns the same number of parts to each worker. Returns no parts unless the number of workers
/// divides the number of parts.
[[nodiscard]] inline std::vector<AssignedPart> parts_per_worker(const SharedWork& w)
{
  const auto& replica_map = w.c.replica_map();
  if (replica_map.empty()) return {};
  const std::size_t shares = std::max<std::size_t>(1, w.workers / replica_map.size());
  const std::size_t parts = shares * replica_map.size();
  if (parts % w.workers != 0) return {};
  std::vector<AssignedPart> all;
  for (const auto& [_, replicas] : replica_map)
  {
    if (shares > replicas.size()) return {};
    for (std::size_t i = 0; i < shares; ++i)
    {
      const int holder = replicas[i * replicas.size() / shares];
      const int worker = w.rank_of(all.size() * w.workers / parts, w.workers);
      all.push_back({row_part(w.c[holder], i, shares), holder, worker});
    }
  }
  return all;
}

/// Whether a block has all of these rows and columns.
[[nodiscard]] inline bool contains(const Block& block, const Range& rows, const Range& cols)
{
  const auto within = [](const Range& r, const Range& all) {
    return r.valid == 0 || (all.offset <= r.offset && r.offset + r.valid <= all.offset + all.valid);
  };
  return within(rows, block.rows) && within(cols, block.cols);
}

/// Returns a part, and where it begins in its holder's block of C.
[[nodiscard]] inline TargetPart target_of(const SharedWork& w, const AssignedPart& p)
{
  return {p.part, {p.holder, p.part.rows.offset - w.c[p.holder].rows.offset, 0}};
}

/// Returns which windows ranks open if parts are computed in blocks of C and copied to other
/// replicas.
[[nodiscard]] inline WorkAssignment windows_in_place(const SharedWork& w,
                                                     const std::vector<AssignedPart>& parts)
{
  WorkAssignment work;
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

/// Assigns parts that are computed in blocks of C and copied to the other replicas.
[[nodiscard]] inline WorkAssignment assign_in_place(const SharedWork& w,
                                                    const std::vector<AssignedPart>& parts,
                                                    int rank,
                                                    ProductList list = ProductList::to_compute)
{
  WorkAssignment work = windows_in_place(w, parts);
  const Block whole = w.c[rank];
  std::vector<TargetPart> mine;
  for (const auto& p : parts)
  {
    const TargetPart target = target_of(w, p);
    if (p.worker == rank) mine.push_back(target);
    if (w.c[p.holder] != whole) continue;
    const Corner from = target.origin;
    if (p.holder == rank && w.size().k == 0) work.zero_k = {from.i, 0, p.part.valid()};
    if (p.holder != rank) work.peer_parts.push_back({from, {rank, from.i, 0}, p.part.valid()});
  }
  work.products = block_products(w.a, w.b, mine, w.inner(), rank, w.times, list);
  return work;
}

// By cut: parts that are cut differently from C, and computed in workspaces.

/// Assigns the parts of a cut to workers, which compute them in workspaces; the holders of C read
/// their elements.
[[nodiscard]] inline WorkAssignment assign_by_cut(const SharedWork& w, const WorkCut& cut, int rank,
                                                  ProductList list = ProductList::to_compute)
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
    work.reads_a = work.reads_a || !contains(w.a[worker], part.rows, inner);
    work.reads_b = work.reads_b || !contains(w.b[worker], inner, part.cols);
    if (worker == rank)
      work.products =
          block_products(w.a, w.b, {{part, {worker, 0, 0}}}, inner, rank, w.times, list);
    const Rectangle common = intersection(part, whole);
    if (common.empty() || inner.valid == 0) continue;
    work.peer_parts.push_back({{worker, common.i - part.rows.offset, common.j - part.cols.offset},
                               {rank, common.i - whole.rows.offset, common.j - whole.cols.offset},
                               common.shape,
                               i < cut.m * cut.n});
  }
  return work;
}

// The choice of the fastest way.

/// A way to assign the work, and its predicted times.
struct WorkWay
{
  std::vector<AssignedPart> parts;  // the parts, if they are computed in place
  std::optional<WorkCut> cut;       // the cut, if its parts are computed in workspaces
  double products_time = 0;         // the time of the products of the slowest worker
  double time = 0;                  // the time of the whole product
  int workers = 0;                  // the number of ranks that multiply

  [[nodiscard]] WorkAssignment assign(const SharedWork& w, int rank, ProductList list) const
  {
    auto work = cut ? assign_by_cut(w, *cut, rank, list) : assign_in_place(w, parts, rank, list);
    work.time = time;
    work.products_time = products_time;
    work.workers = workers;
    return work;
  }
};

/// Returns the time of the largest part, as if it were multiplied by panels. If replicas have fewer
/// rows than ranks, some parts are empty.
[[nodiscard]] inline double time_of_largest(const SharedWork& w,
                                            const std::vector<AssignedPart>& parts)
{
  const auto size_of = [](const AssignedPart& p) { return p.part.valid().size(); };
  const auto& largest = *std::max_element(
      parts.begin(), parts.end(), [&](auto& x, auto& y) { return size_of(x) < size_of(y); });
  return w.time_of(products_by_panels(w.a, w.b, target_of(w, largest), w.inner(), largest.worker,
                                      w.times, ProductList::to_predict));
}

/// @pre at least one rank has a part
[[nodiscard]] inline WorkWay way_per_rank(const SharedWork& w, std::vector<AssignedPart> parts)
{
  const auto windows = windows_in_place(w, parts);
  const bool synchronises = windows.reads_a || windows.reads_b || windows.reads_c;
  // Ranks that never wait for each other need not switch before they are done.
  const double switching = w.turns() > 1 && synchronises ? w.rates.shared_core : 1;
  const double products = time_of_largest(w, parts) * w.turns() * switching;
  return {std::move(parts), {}, products, products + w.time_of_windows(windows), w.c.ranks()};
}

/// @pre the parts can be shared out among the workers
[[nodiscard]] inline WorkWay way_per_worker(const SharedWork& w, std::vector<AssignedPart> parts)
{
  const auto of_one = static_cast<double>(parts.size() / w.workers);
  const double products = time_of_largest(w, parts) * of_one;
  const double time = products + w.time_of_windows(windows_in_place(w, parts));
  return {std::move(parts), {}, products, time, static_cast<int>(w.workers)};
}

[[nodiscard]] inline WorkWay way_by_cut(const SharedWork& w, const WorkCut& cut)
{
  // Holders read workspaces that are no longer in caches. This takes as long as three copies, or
  // more if they add up several parts.
  const double copies = cut.k > 1 ? 2 + static_cast<double>(cut.k) : 3;
  // Rank 0 has one of the largest parts.
  const auto work = assign_by_cut(w, cut, 0, ProductList::to_predict);
  // As in way_per_rank, if more ranks multiply than there are cores.
  const double turns = static_cast<double>(cut.workers()) / static_cast<double>(w.workers);
  const double products = w.time_of(work.products) * turns * (turns > 1 ? w.rates.shared_core : 1);
  const double time = products + w.time_of_windows(work) +
                      turns * copies * w.times.copy * static_cast<double>(work.workspace.size());
  return {{}, cut, products, time, static_cast<int>(cut.workers())};
}

CUBIST_INLINE WorkAssignment assign_work(const Placement& a, const Placement& b, const Placement& c,
                                         int rank, int cores, std::size_t scalar_bytes,
                                         const GemmRates& rates, ProductList list)
{
  // C^T = B^T A^T
  if (c.transposed())
    return assign_work(b.t(), a.t(), c.t(), rank, cores, scalar_bytes, rates, list);

  const SharedWork w{a,
                     b,
                     c,
                     static_cast<std::size_t>(std::min(c.ranks(), cores)),
                     GemmTimes::of(scalar_bytes, rates),
                     rates};
  auto of_ranks = parts_per_rank(w);
  if (of_ranks.empty()) return assign_in_place(w, of_ranks, rank, list);

  WorkWay fastest = way_per_rank(w, std::move(of_ranks));
  const auto consider = [&](WorkWay way) {
    if (way.time < fastest.time) fastest = std::move(way);
  };
  if (auto of_workers = parts_per_worker(w); w.turns() > 1 && !of_workers.empty())
    consider(way_per_worker(w, std::move(of_workers)));
  for (const WorkCut& cut : work_cuts(w.workers)) consider(way_by_cut(w, cut));
  // For a thin result, each rank multiplies what it holds, and ranks read only partial sums.
  if (w.turns() > 1) consider(way_by_cut(w, {1, 1, static_cast<std::size_t>(c.ranks())}));
  return fastest.assign(w, rank, list);
}

}  // namespace cubist::CUBIST_ABI::detail
