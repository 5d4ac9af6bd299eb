// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The chain of ranks along which data goes from one to the next:
//
//   broadcast   from the root, node by node (mpi/topology.hpp), to all others
//   reduce      from the rank behind the root around to the root

#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/mpi/context.hpp"

namespace cubist::detail
{

class MpiChain
{
 public:
  MpiChain(const MpiContext& place, Collective collective, int root)
      : size_{place.size}, first_{collective == Collective::reduce ? (root + 1) % size_ : root},
        nodes_{collective == Collective::broadcast ? place.nodes.get() : nullptr}
  {
  }

  /// From whom data comes to a rank, and to whom it goes from there; -1 for nobody.
  [[nodiscard]] int before(int rank) const
  {
    if (nodes_ != nullptr) return nodes_->before(rank, first_);
    return rank == first_ ? -1 : (rank + size_ - 1) % size_;
  }
  [[nodiscard]] int after(int rank) const
  {
    if (nodes_ != nullptr) return nodes_->after(rank, first_);
    const int next = (rank + 1) % size_;
    return next == first_ ? -1 : next;
  }

  /// The ranks before the one from which data comes, the nearest first.
  [[nodiscard]] std::vector<int> behind(int rank) const
  {
    std::vector<int> ranks;
    for (int r = before(rank); r >= 0 && (r = before(r)) >= 0;) ranks.push_back(r);
    return ranks;
  }

 private:
  int size_;
  int first_;
  const MpiTopology* nodes_;
};

}  // namespace cubist::detail
