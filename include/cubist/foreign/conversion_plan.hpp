// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The plan of a conversion to = op(from). It says which patches of this rank share elements with
// which patches of other ranks. It has one entry for each pair of patches, not for each block.
//
//   1. a source patch of this rank and a target patch of this rank: copied
//   2. a source patch of this rank and a target patch of another rank that reads it here: sent
//   3. a source patch of another rank and a target patch of this rank: received
//
// A rank reads from its own replica of a patch if it has one. Making a plan takes O(patches) steps
// if one of the two sets of indices is an interval, and otherwise O(P Q) + O(blocks in a row or
// column) steps, because a block-cyclic layout has few sets.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "cubist/engine/engine.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/foreign/index_set.hpp"
#include "cubist/foreign/matrix_part.hpp"
#include "cubist/foreign/patches.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// A pair of patches that share elements. One of them may be another rank's.
struct PatchPair
{
  int peer = 0;
  std::size_t source = 0;    ///< the index of the source patch
  std::size_t target = 0;    ///< the index of the target patch
  std::size_t elements = 0;  ///< the number of elements that they share
};

/// Counts the elements that patches share. It keeps the numbers of common rows and columns of two
/// block-cyclic sets.
class CommonElements
{
 public:
  CommonElements(const Patches& from, const Patches& to, MatrixPart part)
      : from_{from},
        to_{to},
        part_{part},
        rows_{keeps(from.row_sets, to.row_sets)},
        cols_{keeps(from.col_sets, to.col_sets)}
  {
  }

  [[nodiscard]] std::size_t operator()(const Patch& s, const Patch& t)
  {
    const std::size_t rows = count(rows_, from_.row_sets, s.rows, to_.row_sets, t.rows);
    if (rows == 0) return 0;
    const std::size_t n = rows * count(cols_, from_.col_sets, s.cols, to_.col_sets, t.cols);
    return part_ == MatrixPart::all || n == 0 ? n : in_part(s, t);
  }

 private:
  using Sets = std::vector<IndexSet>;
  static constexpr std::size_t unknown = std::numeric_limits<std::size_t>::max();

  static std::vector<std::size_t> keeps(const Sets& a, const Sets& b)
  {
    const auto is_interval = [](const IndexSet& s) { return s.is_interval(); };
    const bool simple = std::ranges::all_of(a, is_interval) || std::ranges::all_of(b, is_interval);
    return std::vector<std::size_t>(simple ? 0 : a.size() * b.size(), unknown);
  }
  static std::size_t count(std::vector<std::size_t>& kept, const Sets& a, std::size_t i,
                           const Sets& b, std::size_t j)
  {
    if (kept.empty()) return common_size(a[i], b[j]);
    std::size_t& n = kept[i * b.size() + j];
    if (n == unknown) n = common_size(a[i], b[j]);
    return n;
  }
  [[nodiscard]] std::size_t in_part(const Patch& s, const Patch& t) const
  {
    std::size_t n = 0;
    for_each_common_run(
        from_.rows(s), to_.rows(t), [&](std::size_t i, std::size_t rows, std::size_t, std::size_t) {
          for_each_common_run(from_.cols(s), to_.cols(t),
                              [&](std::size_t j, std::size_t cols, std::size_t, std::size_t) {
                                n += size_in(part_, i, j, {rows, cols});
                              });
        });
    return n;
  }

  const Patches& from_;
  const Patches& to_;
  MatrixPart part_;
  std::vector<std::size_t> rows_;
  std::vector<std::size_t> cols_;
};

/// One rank's part in a conversion.
struct ConversionPlan
{
  Patches from;  ///< the patches of op(from)
  Patches to;
  MatrixPart part = MatrixPart::all;
  int rank = 0;
  /// The transfers, sorted in the same way on both sides: by peer, beginning with the next rank, so
  /// that not all ranks send to the same one at once; then by group of source patches; then by
  /// target patch.
  std::vector<PatchPair> sends;
  std::vector<PatchPair> receives;
  std::vector<PatchPair> local;

  ConversionPlan(const Distribution& source, const Distribution& target, Op op, MatrixPart p,
                 int me, int ranks)
      : from{op == Op::none ? source.patches() : source.patches().transposed()},
        to{target.patches()},
        part{p},
        rank{me}
  {
    CommonElements common{from, to, part};
    for (std::size_t g = 0; g < from.groups.size(); ++g)
      for (std::size_t t = to.begin(me); t < to.end(me); ++t)
      {
        const std::size_t s = from.source_for(me, g);
        const Patch& source_patch = from.all[s];
        if (const std::size_t n = common(source_patch, to.all[t]); n > 0)
          (source_patch.rank == me ? local : receives).push_back({source_patch.rank, s, t, n});
      }
    for (std::size_t s = from.begin(me); s < from.end(me); ++s)
      for (std::size_t t = 0; t < to.all.size(); ++t)
      {
        const Patch& target_patch = to.all[t];
        if (target_patch.rank == me || from.source_for(target_patch.rank, from.all[s].group) != s)
          continue;
        if (const std::size_t n = common(from.all[s], target_patch); n > 0)
          sends.push_back({target_patch.rank, s, t, n});
      }
    const auto distance = [&](const PatchPair& t) { return (t.peer - me + ranks) % ranks; };
    const auto key = [&](const PatchPair& t) {
      return std::tuple{distance(t), from.all[t.source].group, t.target};
    };
    std::ranges::sort(sends, {}, key);
    std::ranges::sort(receives, {}, key);
  }

  /// Whether any rank needs an element of another rank; the same on all ranks.
  [[nodiscard]] bool is_exchange() const
  {
    if (!sends.empty() || !receives.empty()) return true;
    CommonElements common{from, to, part};
    for (const Patch& t : to.all)
      for (std::size_t g = 0; g < from.groups.size(); ++g)
        if (const Patch& s = from.all[from.source_for(t.rank, g)];
            s.rank != t.rank && common(s, t) > 0)
          return true;
    return false;
  }
};

/// Calls f(first, last) for the transfers of each peer.
template <class F>
void for_each_peer(const std::vector<PatchPair>& transfers, F f)
{
  for (auto first = transfers.begin(); first != transfers.end();)
  {
    auto last = first;
    while (last != transfers.end() && last->peer == first->peer) ++last;
    f(first, last);
    first = last;
  }
}

}  // namespace detail

/// The number of elements that a conversion sends if ranks do not share memory. A unit is a rank,
/// or the ranks of a node.
struct ConversionCost
{
  std::size_t total = 0;     ///< elements that all units send to others in total
  std::size_t sent = 0;      ///< the most that one unit sends
  std::size_t received = 0;  ///< the most that one unit receives

  friend bool operator==(const ConversionCost&, const ConversionCost&) = default;
};

/// Returns the cost of to = op(from), computed from both distributions. Sends nothing.
/// @param ranks_of_unit the number of consecutive ranks in a unit: 1 counts what each rank sends,
/// the number of ranks on a node counts what leaves the nodes
[[nodiscard]] inline ConversionCost conversion_cost(const Distribution& from,
                                                    const Distribution& to, Op op = Op::none,
                                                    MatrixPart part = MatrixPart::all,
                                                    int ranks_of_unit = 1)
{
  const detail::Patches sources = op == Op::none ? from.patches() : from.patches().transposed();
  const detail::Patches targets = to.patches();
  detail::CommonElements common{sources, targets, part};
  const auto unit_of = [&](int rank) { return static_cast<std::size_t>(rank / ranks_of_unit); };
  const std::size_t units = unit_of(std::max({from.ranks(), to.ranks(), 1}) - 1) + 1;
  std::vector<std::size_t> sent(units);
  std::vector<std::size_t> received(units);
  for (const detail::Patch& t : targets.all)
    for (std::size_t g = 0; g < sources.groups.size(); ++g)
    {
      const detail::Patch& s = sources.all[sources.source_for(t.rank, g)];
      if (unit_of(s.rank) == unit_of(t.rank)) continue;
      const std::size_t n = common(s, t);
      sent[unit_of(s.rank)] += n;
      received[unit_of(t.rank)] += n;
    }
  return {.total = std::accumulate(sent.begin(), sent.end(), std::size_t{0}),
          .sent = std::ranges::max(sent),
          .received = std::ranges::max(received)};
}

}  // namespace cubist::CUBIST_ABI
