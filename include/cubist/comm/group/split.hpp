// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A split of a communicator in progress. It collects the colour and key of each rank, and makes the
// new communicators once for all ranks.

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class Group>
class GroupSplit
{
 public:
  explicit GroupSplit(std::size_t ranks)
      : given_(ranks)
  {
  }

  void give(std::size_t rank, int colour, int key) { given_[rank] = {colour, key}; }

  /// Returns the group of all ranks with the colour of `rank`, ordered by key, then by rank, and
  /// the position of `rank` in it. The first call makes all groups.
  /// @param make make(positions in the communicator) returns a group
  /// @pre all ranks have given colour and key
  template <class Make>
  std::pair<std::shared_ptr<Group>, int> group_of(std::size_t rank, Make make)
  {
    if (groups_.empty()) make_groups(make);
    return {groups_.at(given_[rank].first), positions_[rank]};
  }

 private:
  template <class Make>
  void make_groups(Make make)
  {
    std::map<int, std::vector<std::pair<int, std::size_t>>> by_colour;  // key, rank
    for (std::size_t r = 0; r < given_.size(); ++r)
      by_colour[given_[r].first].emplace_back(given_[r].second, r);
    positions_.resize(given_.size());
    for (auto& [colour, members] : by_colour)
    {
      std::sort(members.begin(), members.end());
      std::vector<std::size_t> ranks;
      for (const auto& [_, r] : members)
      {
        positions_[r] = static_cast<int>(ranks.size());
        ranks.push_back(r);
      }
      groups_[colour] = make(ranks);
    }
  }

  std::vector<std::pair<int, int>> given_;  // colour, key
  std::vector<int> positions_;
  std::map<int, std::shared_ptr<Group>> groups_;
};

}  // namespace cubist::CUBIST_ABI::detail
