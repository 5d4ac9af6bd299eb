// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The nodes of a communicator's ranks, and routes on which each block enters each node only once,
// even if several ranks of the node need it:
//
//   broadcast    a chain: from the root through its node, then through the other nodes in turn
//   all_gather   a rank sends its block to all ranks of its node and to one leader on each other
//                node, which forwards it there
//
// If all nodes have the same number of ranks, every rank sends P-1 blocks, as in a direct exchange.
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", 2005: data is sent once between nodes, and then within each node.

#include <cstddef>
#include <map>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiTopology
{
 public:
  /// @param node_ids for each rank, a number that identifies its node
  MpiTopology(const std::vector<int>& node_ids, int rank)
  {
    std::map<int, std::size_t> known;
    for (std::size_t r = 0; r < node_ids.size(); ++r)
    {
      const auto [node, is_new] = known.try_emplace(node_ids[r], nodes_.size());
      if (is_new) nodes_.emplace_back();
      auto& ranks = nodes_[node->second];
      positions_.push_back({node->second, ranks.size()});
      ranks.push_back(static_cast<int>(r));
    }
    node_peers_ = node_of(rank);
    std::erase(node_peers_, rank);
    if (node_peers_.empty()) return;
    for (const int leader : node_of(rank))
      for (int source = 0; source < static_cast<int>(positions_.size()); ++source)
        if (!same_node(source, leader) && leader_for(source, node_of(leader)) == leader)
          (leader == rank ? forwarded_ : forwarded_by_peers_).push_back({leader, source});
  }

  /// The ranks before and after a rank in the chain of a broadcast; -1 for none.
  [[nodiscard]] int predecessor(int rank, int root) const
  {
    if (rank == root) return -1;
    const auto& [node, index] = position(rank);
    if (index > 0 || same_node(rank, root)) return cyclic(nodes_[node], index, -1);
    const auto& previous = cyclic(nodes_, node, -1);
    return cyclic(previous, same_node(previous[0], root) ? position(root).index : 0, -1);
  }
  [[nodiscard]] int successor(int rank, int root) const
  {
    const auto& [node, index] = position(rank);
    const int next = cyclic(nodes_[node], index, 1);
    if (next != (same_node(rank, root) ? root : nodes_[node][0])) return next;
    const auto& next_node = cyclic(nodes_, node, 1);
    return same_node(next_node[0], root) ? -1 : next_node[0];
  }

  /// Whether `source` itself sends its block of an all_gather to `to`.
  [[nodiscard]] bool sends_directly(int source, int to) const
  {
    return same_node(source, to) || leader_for(source, node_of(to)) == to;
  }
  /// The other ranks of this rank's node.
  [[nodiscard]] const std::vector<int>& node_peers() const { return node_peers_; }

  /// A block of another node's rank `source`, which `leader` forwards to its node.
  struct Forwarded
  {
    int leader;
    int source;
  };
  /// The blocks that this rank forwards to its node, in this order.
  [[nodiscard]] const std::vector<Forwarded>& forwarded() const { return forwarded_; }
  /// The blocks that the other ranks of the node forward, in the order in which each forwards them.
  [[nodiscard]] const std::vector<Forwarded>& forwarded_by_peers() const
  {
    return forwarded_by_peers_;
  }

 private:
  struct Position
  {
    std::size_t node;
    std::size_t index;  // among the ranks of the node
  };

  [[nodiscard]] const Position& position(int rank) const
  {
    return positions_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const std::vector<int>& node_of(int rank) const
  {
    return nodes_[position(rank).node];
  }
  [[nodiscard]] bool same_node(int a, int b) const { return position(a).node == position(b).node; }
  /// The rank of another node that receives the block of `source` for its whole node.
  [[nodiscard]] int leader_for(int source, const std::vector<int>& node) const
  {
    return node[position(source).index % node.size()];
  }

  /// The element `steps` after element `i`, cyclically.
  template <class T>
  [[nodiscard]] static const T& cyclic(const std::vector<T>& all, std::size_t i, int steps)
  {
    return all[(i + all.size() + static_cast<std::size_t>(steps)) % all.size()];
  }

  std::vector<std::vector<int>> nodes_;
  std::vector<Position> positions_;
  std::vector<int> node_peers_;
  std::vector<Forwarded> forwarded_;
  std::vector<Forwarded> forwarded_by_peers_;
};

}  // namespace cubist::CUBIST_ABI::detail
