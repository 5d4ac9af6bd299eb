// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which stages of a pipeline hold a matrix (mesh/stages.hpp). A parameter is cut over the ranks of
// its layer's stage, as its layout says, and all other ranks hold an empty block of it. So every
// rank can list all parameters of a network. Optimizers, the norm of all gradients, checkpoints and
// comparisons of replicas work on such lists, and need not know of stages.
//
// A table that the first and the last stage share has a replica in both.

#include <optional>

#include "cubist/core/block.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/mesh/stages.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Whether a rank is one of the mesh.
template <class M>
[[nodiscard]] bool is_active(const M& mesh, int rank)
{
  return rank < mesh.size();
}

/// A mesh without stages needs no members.
template <class M>
struct StageCut
{
  [[nodiscard]] StageCut with_parts() const { return {}; }
};

template <HasStages M>
struct StageCut<M>
{
  using Stage = StageMesh<M>;

  int first = -1;                     // the stage that holds the matrix, or the first of two
  int second = -1;                    // the other one, or the same
  std::optional<Stage> mesh_of = {};  // the mesh of the stage that this rank knows
  Block (*block_of)(const Stage&, Shape, Quanta, int rank) = nullptr;
  bool (*primary)(const Stage&, int rank) = nullptr;
  typename M::Communicator* (*replicas)(const Stage&) = nullptr;
  Block (*part_of)(const Stage&, Shape, Quanta, int rank) = nullptr;

  /// Whether not all stages hold the matrix.
  [[nodiscard]] bool in_use() const { return first >= 0; }

  [[nodiscard]] Block block(const M& mesh, Shape shape, Quanta quanta, int rank) const
  {
    if (!holds(mesh, rank)) return {};
    return block_of(*mesh_of, shape, quanta, rank_in_stage(mesh, rank));
  }
  [[nodiscard]] Block part(const M& mesh, Shape shape, Quanta quanta, int rank) const
  {
    if (!holds(mesh, rank)) return {};
    return part_of(*mesh_of, shape, quanta, rank_in_stage(mesh, rank));
  }
  [[nodiscard]] bool is_primary(const M& mesh, int rank) const
  {
    return rank < mesh.size() && stage_of(mesh, rank) == first &&
           primary(*mesh_of, rank_in_stage(mesh, rank));
  }
  /// Within this rank's stage.
  [[nodiscard]] typename M::Communicator* replica_ranks() const { return replicas(*mesh_of); }

  [[nodiscard]] StageCut with_parts() const
  {
    StageCut parts = *this;
    parts.block_of = part_of;
    parts.primary = &is_active<Stage>;
    return parts;
  }

 private:
  [[nodiscard]] bool holds(const M& mesh, int rank) const
  {
    if (rank >= mesh.size()) return false;
    const int stage = stage_of(mesh, rank);
    return stage == first || stage == second;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
