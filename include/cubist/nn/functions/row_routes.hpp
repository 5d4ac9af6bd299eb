// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which rank sends rows to which, where row i of a matrix is row ids[i] of a table, or the sum of
// the gradients of such rows. All ranks know the ids, so all know all messages.
//
//   table E (V, d), matrix H (M, d): any layouts; H(i, :) = E(ids[i], :)
//
// A receiver gets each distinct id of a block once, from one of the ranks that hold the block. It
// reads a block that it holds itself; the replicas of a block share the other receivers evenly, in
// the order of the ranks.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A message from the holder of a block to that of another, in columns that both have.
struct RowRoute
{
  int from = 0;
  int to = 0;
  Range rows;   // of H: those of its block
  Range vocab;  // of E
  Range cols;   // of both; `size` is the number

  /// The most rows that it can have: each id once.
  [[nodiscard]] std::size_t most_rows() const { return std::min(rows.valid, vocab.valid); }
};

/// The routes of one rank.
struct RowRoutes
{
  std::vector<RowRoute> sends;     // to other ranks; no two ranks send in the same order
  std::vector<RowRoute> receives;  // from others and itself, in the order of the senders' blocks
};

/// The routes of a rank from blocks of one matrix to those of the other.
/// @param from, to (rank) its block  @param to_h whether `to` is H, and `from` E
template <class From, class To>
[[nodiscard]] RowRoutes row_routes(int ranks, int rank, From from, To to, bool to_h)
{
  RowRoutes mine;
  const auto common = [](const Range& a, const Range& b) {
    const std::size_t begin = std::max(a.offset, b.offset);
    const std::size_t end = std::min(a.offset + a.valid, b.offset + b.valid);
    return Range{begin, end > begin ? end - begin : 0, end > begin ? end - begin : 0};
  };
  for (const auto& block_and_holders : replica_map(ranks, from))
  {
    const auto& holders = block_and_holders.second;
    const Block source = from(holders.front());
    const auto add = [&](int sender, int receiver, std::vector<RowRoute>& routes) {
      const Block target = to(receiver);
      routes.push_back({sender, receiver, to_h ? target.rows : source.rows,
                        to_h ? source.rows : target.rows, common(source.cols, target.cols)});
    };
    std::vector<int> receivers;
    for (int r = 0; r < ranks; ++r)
    {
      const Block target = to(r);
      if (target.valid().size() == 0 || common(source.cols, target.cols).size == 0) continue;
      if (!std::binary_search(holders.begin(), holders.end(), r))
        receivers.push_back(r);
      else if (r == rank)
        add(r, r, mine.receives);
    }
    for (std::size_t k = 0; k < receivers.size(); ++k)
    {
      const int sender = holders[k * holders.size() / receivers.size()];
      if (sender == rank) add(sender, receivers[k], mine.sends);
      if (receivers[k] == rank) add(sender, rank, mine.receives);
    }
  }
  std::sort(mine.sends.begin(), mine.sends.end(), [&](const RowRoute& a, const RowRoute& b) {
    return (a.to - rank + ranks) % ranks < (b.to - rank + ranks) % ranks;
  });
  return mine;
}

}  // namespace cubist::CUBIST_ABI::detail
