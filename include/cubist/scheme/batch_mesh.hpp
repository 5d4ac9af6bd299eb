// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Meshes for a batch of products. The ranks of a communicator form groups of equal size, each with
// a mesh of the scheme, and the matrices of a batch are distributed over the groups. With one
// group, each rank has a block of every matrix.

#include "cubist/core/error.hpp"
#include "cubist/scheme/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// Groups of ranks, each of which has its own mesh.
template <class A, class B>
class AxisBatchMesh
{
 public:
  /// The mesh of one group.
  using Group = AxisMesh<A, B>;
  using Communicator = typename B::Communicator;

  [[nodiscard]] Communicator& world() const { return world_; }
  /// The number of groups.
  [[nodiscard]] int groups() const { return groups_; }
  /// The number of ranks in a group.
  [[nodiscard]] int group_size() const { return world_.size() / groups_; }
  /// The index of this rank's group.
  [[nodiscard]] int index() const { return index_; }
  /// The mesh of this rank's group.
  [[nodiscard]] const Group& group() const { return group_; }
  /// The ranks with the same index in their groups as this rank.
  [[nodiscard]] Communicator& across() const { return across_; }

 protected:
  /// @param make_group makes the mesh of a group from its communicator
  template <class F>
  AxisBatchMesh(const Communicator& world, int groups, F make_group)
      : world_{world},
        groups_{require_divisor(groups, world.size())},
        index_{world.rank() / group_size()},
        group_{make_group(world_.split(index_, world.rank()))},
        across_{world_.split(world.rank() % group_size(), world.rank())}
  {
  }

 private:
  static int require_divisor(int groups, int ranks)
  {
    require<MeshError>(groups >= 1 && ranks % groups == 0, "got ", groups, " groups for ", ranks,
                       " ranks, but all groups need the same number of ranks; use a divisor of ",
                       ranks);
    return groups;
  }

  mutable Communicator world_;
  int groups_;
  int index_;
  Group group_;
  mutable Communicator across_;
};

template <MeshShape S, class B>
class BatchMesh : public AxisBatchMesh<typename S::Axes, B>
{
 public:
  using Scheme = S;

  /// Makes groups of consecutive ranks. Every rank of `world` calls this.
  /// @throws MeshError unless the ranks can be divided into this many groups, and the extents fit
  /// each of them
  BatchMesh(const typename B::Communicator& world, int groups,
            const typename S::Extents& extents = {})
      : AxisBatchMesh<typename S::Axes, B>{world, groups,
                                           [&extents](const typename B::Communicator& group) {
                                             return Mesh<S, B>{group, extents};
                                           }}
  {
  }
};

}  // namespace cubist::CUBIST_ABI
