// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Shows a matrix of one stage of a pipeline as a matrix of all ranks of the pipeline
// (mesh/stages.hpp). A parameter is cut over the ranks of its layer's stage, as its layout says,
// and all other ranks hold an empty block of it. So every rank can list all parameters of a
// network. Optimizers, the norm of all gradients, checkpoints and checks of replicas work on such
// lists, and need not know about stages.
//
// A table that the first and the last stage share has a replica in both.

#include <memory>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/mesh/stages.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The blocks of a matrix that one or two stages hold.
template <HasStages M>
class StageBlocks final : public BlockMap<M>
{
  using Stage = StageMesh<M>;
  using OfStage = std::shared_ptr<const BlockMap<Stage>>;

 public:
  /// @param stage  the mesh of the stage that this rank knows  @param of_stage  the blocks there
  StageBlocks(Stage stage, OfStage of_stage, int first, int second)
      : stage_{std::move(stage)},
        of_stage_{std::move(of_stage)},
        first_{first},
        second_{second}
  {
  }

  [[nodiscard]] Block block(const M& mesh, Shape shape, Quanta quanta, int rank) const override
  {
    if (rank >= mesh.size()) return {};
    const int stage = stage_of(mesh, rank);
    if (stage != first_ && stage != second_) return {};
    return of_stage_->block(stage_, shape, quanta, rank_in_stage(mesh, rank));
  }
  [[nodiscard]] bool is_primary(const M& mesh, int rank) const override
  {
    return rank < mesh.size() && stage_of(mesh, rank) == first_ &&
           of_stage_->is_primary(stage_, rank_in_stage(mesh, rank));
  }
  /// Returns the replicas within this rank's stage.
  [[nodiscard]] typename M::Communicator* replicas(const M&) const override
  {
    return of_stage_->replicas(stage_);
  }
  [[nodiscard]] std::shared_ptr<const BlockMap<M>> parts() const override
  {
    return std::make_shared<StageBlocks>(stage_, of_stage_->parts(), first_, second_);
  }

 private:
  Stage stage_;
  OfStage of_stage_;
  int first_;
  int second_;
};

}  // namespace detail

/// Returns a view for all ranks of `mesh` of a matrix that stage `first` holds, and stage `second`,
/// too, if it is a different one.
/// @param of_stage the matrix on the mesh of this rank's stage or, if that stage holds none of it,
/// on make_other_stage_mesh(mesh)
template <class T, HasStages M>
[[nodiscard]] DistView<T, M> view_of_stage(const M& mesh, const DistView<T, StageMesh<M>>& of_stage,
                                           int first, int second)
{
  return {mesh, of_stage.shape, of_stage.quanta, of_stage.padded,
          std::make_shared<detail::StageBlocks<M>>(of_stage.mesh, of_stage.blocks, first, second)};
}
template <class T, HasStages M>
[[nodiscard]] DistView<T, M> view_of_stage(const M& mesh, const DistView<T, StageMesh<M>>& of_stage,
                                           int stage)
{
  return view_of_stage(mesh, of_stage, stage, stage);
}

}  // namespace cubist::CUBIST_ABI
