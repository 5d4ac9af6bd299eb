// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A split of a communicator in progress. It collects the colour and key of each rank, and makes the
// new communicators once for all ranks.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
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
    return {groups_[rank], positions_[rank]};
  }

 private:
  template <class Make>
  void make_groups(Make make)
  {
    std::vector<std::size_t> order(given_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      return given_[a] != given_[b] ? given_[a] < given_[b] : a < b;
    });
    positions_.resize(given_.size());
    groups_.resize(given_.size());
    for (std::size_t i = 0; i < order.size();)
    {
      const int colour = given_[order[i]].first;
      std::vector<std::size_t> ranks;
      for (; i < order.size() && given_[order[i]].first == colour; ++i)
      {
        positions_[order[i]] = static_cast<int>(ranks.size());
        ranks.push_back(order[i]);
      }
      const std::shared_ptr<Group> group = make(ranks);
      for (const std::size_t r : ranks) groups_[r] = group;
    }
  }

  std::vector<std::pair<int, int>> given_;  // colour, key
  std::vector<int> positions_;
  std::vector<std::shared_ptr<Group>> groups_;  // of each rank
};

}  // namespace cubist::CUBIST_ABI::detail
