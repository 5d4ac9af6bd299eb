// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The nodes on which the ranks of a communicator are, and ways among them on which data enters each
// node once, however many of its ranks it is for.
//
//   broadcast    a chain: from the root through its node, then through the other nodes in turn
//   all_gather   a rank sends its piece to all ranks of its node and to one of each other node,
//                which passes it on there
//
// With as many ranks on each node, every rank sends as often as it would to all others by itself.
//
// Source: Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in
// MPICH", 2005: what is sent once between nodes, and then within.

#include <cstddef>
#include <map>
#include <vector>

namespace cubist::detail
{

class MpiTopology
{
 public:
  /// @param of_ranks for each rank its node: any number that others of that node have, too
  MpiTopology(const std::vector<int>& of_ranks, int rank)
  {
    std::map<int, std::size_t> known;
    for (std::size_t r = 0; r < of_ranks.size(); ++r)
    {
      const auto [node, is_new] = known.try_emplace(of_ranks[r], nodes_.size());
      if (is_new) nodes_.emplace_back();
      auto& ranks = nodes_[node->second];
      places_.push_back({node->second, ranks.size()});
      ranks.push_back(static_cast<int>(r));
    }
    mates_ = node_of(rank);
    std::erase(mates_, rank);
    if (mates_.empty()) return;
    for (const int by : node_of(rank))
      for (int source = 0; source < static_cast<int>(places_.size()); ++source)
        if (!together(source, by) && entrance(source, node_of(by)) == by)
          (by == rank ? passed_on_ : passed_by_mates_).push_back({by, source});
  }

  /// From whom a broadcast comes to a rank, and to whom it goes from there; -1 for nobody.
  [[nodiscard]] int before(int rank, int root) const
  {
    if (rank == root) return -1;
    const auto& [node, index] = place(rank);
    if (index > 0 || together(rank, root)) return along(nodes_[node], index, -1);
    const auto& previous = along(nodes_, node, -1);
    return along(previous, together(previous[0], root) ? place(root).index : 0, -1);
  }
  [[nodiscard]] int after(int rank, int root) const
  {
    const auto& [node, index] = place(rank);
    const int next = along(nodes_[node], index, 1);
    if (next != (together(rank, root) ? root : nodes_[node][0])) return next;
    const auto& entered = along(nodes_, node, 1);
    return together(entered[0], root) ? -1 : entered[0];
  }

  /// Whether a rank sends its piece to another one itself.
  [[nodiscard]] bool directly(int source, int to) const
  {
    return together(source, to) || entrance(source, node_of(to)) == to;
  }
  /// The other ranks of this rank's node.
  [[nodiscard]] const std::vector<int>& mates() const { return mates_; }

  /// A piece that comes to one rank of a node for all of them.
  struct Passed
  {
    int by;
    int source;
  };
  /// What this rank passes on to its mates, in this order.
  [[nodiscard]] const std::vector<Passed>& passed_on() const { return passed_on_; }
  /// What they pass on, each in its order.
  [[nodiscard]] const std::vector<Passed>& passed_by_mates() const { return passed_by_mates_; }

 private:
  struct Place
  {
    std::size_t node;
    std::size_t index;  // among the ranks of the node
  };

  [[nodiscard]] const Place& place(int rank) const
  {
    return places_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] const std::vector<int>& node_of(int rank) const { return nodes_[place(rank).node]; }
  [[nodiscard]] bool together(int a, int b) const { return place(a).node == place(b).node; }
  /// The rank to which a piece comes on another node.
  [[nodiscard]] int entrance(int source, const std::vector<int>& node) const
  {
    return node[place(source).index % node.size()];
  }

  /// So many steps from element `i` of all around.
  template <class T>
  [[nodiscard]] static const T& along(const std::vector<T>& all, std::size_t i, int steps)
  {
    return all[(i + all.size() + static_cast<std::size_t>(steps)) % all.size()];
  }

  std::vector<std::vector<int>> nodes_;
  std::vector<Place> places_;
  std::vector<int> mates_;
  std::vector<Passed> passed_on_;
  std::vector<Passed> passed_by_mates_;
};

}  // namespace cubist::detail
