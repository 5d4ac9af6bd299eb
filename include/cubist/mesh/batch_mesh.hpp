// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Meshes for a batch of products: the ranks of a world in groups of equal size, each with a mesh of
// the scheme. A batch is cut over the groups; with one group, each rank has a block of every
// matrix.

#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist
{

template <MeshShape S, class B>
class BatchMesh
{
 public:
  using Scheme = S;
  using Group = AxisMesh<typename S::Axes, B>;
  using Communicator = typename B::Communicator;

  /// Ranks that follow each other are a group. Every rank of `world` calls this.
  /// @throws MeshError unless the ranks make so many groups, and the extents fit each of them
  BatchMesh(const Communicator& world, int groups, const typename S::Extents& extents = {})
      : world_{world}, groups_{checked(groups, world.size())}, index_{world.rank() / group_size()},
        mine_{Mesh<S, B>{world_.split(index_, world.rank()), extents}},
        across_{world_.split(world.rank() % group_size(), world.rank())}
  {
  }

  [[nodiscard]] Communicator& world() const { return world_; }
  [[nodiscard]] int groups() const { return groups_; }
  [[nodiscard]] int group_size() const { return world_.size() / groups_; }
  /// Which group this rank is in.
  [[nodiscard]] int index() const { return index_; }
  /// The mesh of this rank's group.
  [[nodiscard]] const Group& group() const { return mine_; }
  /// The ranks with the same place in each group.
  [[nodiscard]] Communicator& across() const { return across_; }

 private:
  static int checked(int groups, int ranks)
  {
    require<MeshError>(groups >= 1 && ranks % groups == 0, "got ", groups, " groups for ", ranks,
                       " ranks, but groups have equally many of them; use a divisor of ", ranks);
    return groups;
  }

  mutable Communicator world_;
  int groups_;
  int index_;
  Group mine_;
  mutable Communicator across_;
};

}  // namespace cubist
