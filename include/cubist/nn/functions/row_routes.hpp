// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Determines which rank sends rows to which, for a matrix whose row i is row ids[i] of a table, and
// for the sums of the gradients of such rows. All ranks know all ids, so all know all messages.
//
//   table E (V, d), matrix H (M, d): any layouts; H(i, :) = E(ids[i], :)
//
// A receiver gets each distinct id of a block once, from one of the ranks that hold the block. It
// reads a block that it holds itself; the replicas of a block share the other receivers evenly, in
// the order of the ranks.

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A route of rows from the holder of one block to the holder of another, in the columns that both
/// have.
struct RowRoute
{
  int from = 0;
  int to = 0;
  Range rows;                ///< the rows of H in its block
  Range vocab;               ///< the rows of E in its block
  std::size_t cols = 0;      ///< the number of common columns
  std::size_t from_col = 0;  ///< the first of them in the sender's block
  std::size_t to_col = 0;    ///< and in the receiver's

  /// Whether one rank holds both blocks, so that nothing is sent.
  [[nodiscard]] bool is_local() const { return from == to; }
  /// The most elements that a message on this route can have, which is the case if each id occurs
  /// once.
  [[nodiscard]] std::size_t most_elements() const
  {
    return is_local() ? 0 : std::min(rows.valid, vocab.valid) * cols;
  }
};

/// The routes of one rank.
struct RowRoutes
{
  std::vector<RowRoute> sends;     // to other ranks; no two ranks send in the same order
  std::vector<RowRoute> receives;  // from others and itself, in the order of the senders' blocks
};

/// Calls visit(sender, receiver) for each receiver of a block.
/// @param holders the ranks that hold the block, in ascending order
template <class F>
void for_each_message(const std::vector<int>& holders, const std::vector<int>& receivers, F visit)
{
  std::vector<int> others;
  for (const int receiver : receivers)
    if (std::binary_search(holders.begin(), holders.end(), receiver))
      visit(receiver, receiver);
    else
      others.push_back(receiver);
  for (std::size_t k = 0; k < others.size(); ++k)
    visit(holders[k * holders.size() / others.size()], others[k]);
}

/// The routes of a rank from blocks of one matrix to those of the other.
/// @param from, to (rank) its block  @param to_h whether `to` is H, and `from` E
template <class From, class To>
[[nodiscard]] RowRoutes row_routes(int ranks, int rank, From from, To to, bool to_h)
{
  std::vector<Block> targets;
  for (int r = 0; r < ranks; ++r) targets.push_back(to(r));
  // Many blocks of `from` have the same columns, and so the same receivers.
  std::map<std::pair<std::size_t, std::size_t>, std::vector<int>> receivers_of;
  const auto has = [](const std::vector<int>& some, int r) {
    return std::binary_search(some.begin(), some.end(), r);
  };

  RowRoutes mine;
  for (const auto& [corner, holders] : replica_map(ranks, from))
  {
    const Block source = from(holders.front());
    const auto [entry, is_new] = receivers_of.try_emplace({source.cols.offset, source.cols.valid});
    std::vector<int>& receivers = entry->second;
    for (int r = 0; is_new && r < ranks; ++r)
    {
      const Block& target = targets[static_cast<std::size_t>(r)];
      if (target.valid().size() > 0 && intersection(source.cols, target.cols).size > 0)
        receivers.push_back(r);
    }
    if (!has(holders, rank) && !has(receivers, rank)) continue;
    for_each_message(holders, receivers, [&](int sender, int receiver) {
      if (sender != rank && receiver != rank) return;
      const Block& target = targets[static_cast<std::size_t>(receiver)];
      const Range cols = intersection(source.cols, target.cols);
      (receiver == rank ? mine.receives : mine.sends)
          .push_back({sender, receiver, to_h ? target.rows : source.rows,
                      to_h ? source.rows : target.rows, cols.size, cols.offset - source.cols.offset,
                      cols.offset - target.cols.offset});
    });
  }
  const auto distance = [&](const RowRoute& route) { return (route.to - rank + ranks) % ranks; };
  std::sort(mine.sends.begin(), mine.sends.end(),
            [&](const RowRoute& a, const RowRoute& b) { return distance(a) < distance(b); });
  return mine;
}

}  // namespace cubist::CUBIST_ABI::detail
