// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The resources that the ranks of a machine share: two links for each unit at each level, one into
// it and one out of it, and the cores.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/machine/machine.hpp"
#include "cubist/simulation/folding.hpp"

namespace cubist::CUBIST_ABI::detail
{

class SimulatedLinks
{
 public:
  SimulatedLinks(const Machine& machine, int ranks, const Folding& folding = {})
  {
    int unit = 1;
    for (const auto& link : machine.links)
    {
      units_of_.push_back(std::min(unit, ranks));
      first_.push_back(resources_);
      resources_ += 2 * parts(ranks, unit);
      unit = link.ranks;
    }
    first_core_ = resources_;
    ranks_per_node_ = machine.on_a_node(ranks);
    ranks_on_cores_ = machine.on_the_cores(ranks);
    resources_ += parts(ranks, ranks_on_cores_);
    cores_together_ = machine.cores;
    if (folding.is_folded()) fold(ranks, folding);
  }

  [[nodiscard]] std::size_t resources() const { return static_cast<std::size_t>(resources_); }
  /// The number of links, which come before the cores.
  [[nodiscard]] std::size_t links() const { return static_cast<std::size_t>(first_core_); }

  /// The number of a rank's unit at a level.
  [[nodiscard]] int unit(std::size_t level, int rank) const { return rank / units_of_[level]; }
  /// The number of the link out of a unit; into() returns that of the link into it.
  [[nodiscard]] int out_of(std::size_t level, int unit) const { return first_[level] + 2 * unit; }
  [[nodiscard]] int into(std::size_t level, int unit) const { return out_of(level, unit) + 1; }
  [[nodiscard]] bool same_node(int a, int b) const
  {
    return a / ranks_per_node_ == b / ranks_per_node_;
  }
  /// The position of a rank on its node.
  [[nodiscard]] int place_on_node(int rank) const { return rank % ranks_per_node_; }
  /// The number of the resource for the cores on which a rank runs.
  [[nodiscard]] int cores_of(int rank) const { return first_core_ + rank / ranks_on_cores_; }
  [[nodiscard]] double cores_together() const { return cores_together_; }
  /// Returns the resource that stands for this one: that of the unit whose ranks run.
  [[nodiscard]] int representative(int resource) const
  {
    return representatives_.empty() ? resource
                                    : representatives_[static_cast<std::size_t>(resource)];
  }

 private:
  void fold(int ranks, const Folding& folding)
  {
    for (std::size_t level = 0; level < first_.size(); ++level)
      for (int u = 0; u < parts(ranks, units_of_[level]); ++u)
      {
        const int by = unit(level, folding.representative(u * units_of_[level]));
        representatives_.push_back(out_of(level, by));
        representatives_.push_back(into(level, by));
      }
    for (int rank = 0; rank < ranks; rank += ranks_on_cores_)
      representatives_.push_back(cores_of(folding.representative(rank)));
  }

  [[nodiscard]] static int parts(int ranks, int unit) { return (ranks + unit - 1) / unit; }

  std::vector<int> units_of_;         // the ranks of a unit, by level
  std::vector<int> first_;            // the first resource of a level
  std::vector<int> representatives_;  // by resource, if ranks are folded
  int resources_ = 0;
  int first_core_ = 0;
  int ranks_per_node_ = 1;
  int ranks_on_cores_ = 1;
  double cores_together_ = 1;
};

}  // namespace cubist::CUBIST_ABI::detail
