// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the ranks of a communicator are: how many of them each unit (rank, node, rack) holds.

#include <algorithm>
#include <cstddef>
#include <map>
#include <vector>

#include "cubist/machine/machine.hpp"
#include "cubist/simulation/links.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A unit of a level, and the members of a communicator in it.
struct UnitMembers
{
  int unit = 0;
  std::size_t members = 0;
  std::size_t exits = 0;  // members whose successor, cyclically, is in another unit
};

class SimulatedPlacement
{
 public:
  /// @param ranks the communicator's ranks in order, by their numbers in the launch
  SimulatedPlacement(const Machine& machine, const SimulatedLinks& links,
                     const std::vector<int>& ranks)
      : ranks_{ranks}
  {
    const auto one_unit = [&](std::size_t level) {
      return std::ranges::all_of(
          ranks, [&](int r) { return links.unit(level, r) == links.unit(level, ranks.front()); });
    };
    while (top_ + 1 < machine.links.size() && !one_unit(top_ + 1)) ++top_;
    for (std::size_t level = 0; level <= top_; ++level)
    {
      std::map<int, UnitMembers> units;
      for (std::size_t i = 0; i < size(); ++i)
      {
        const int unit = links.unit(level, ranks[i]);
        UnitMembers& here = units[unit];
        here.unit = unit;
        ++here.members;
        if (links.unit(level, ranks[(i + 1) % size()]) != unit) ++here.exits;
      }
      auto& list = units_.emplace_back();
      for (const auto& [_, here] : units) list.push_back(here);
    }
  }

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  /// The rank of the launch at a position in the communicator, counted cyclically.
  [[nodiscard]] int rank(int position) const
  {
    return ranks_[static_cast<std::size_t>(position) % size()];
  }
  /// The level whose links connect all ranks; 0 inside a node.
  [[nodiscard]] std::size_t top() const { return top_; }
  [[nodiscard]] const std::vector<UnitMembers>& units(std::size_t level) const
  {
    return units_[level];
  }
  /// How many members are on the node of a member.
  [[nodiscard]] std::size_t on_node(const SimulatedLinks& links, int rank) const
  {
    if (top_ == 0) return size();
    const auto& nodes = units_[1];
    const int node = links.unit(1, rank);
    return std::ranges::lower_bound(nodes, node, {}, &UnitMembers::unit)->members;
  }

 private:
  std::vector<int> ranks_;
  std::size_t top_ = 0;
  std::vector<std::vector<UnitMembers>> units_;
};

}  // namespace cubist::CUBIST_ABI::detail
