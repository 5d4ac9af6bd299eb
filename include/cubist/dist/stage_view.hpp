// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Shows a matrix of one stage of a pipeline as a matrix of all ranks of the pipeline. The ranks of
// other stages hold empty blocks of it (dist/stage_cut.hpp).

#include "cubist/dist/dist_matrix.hpp"
#include "cubist/mesh/stages.hpp"

namespace cubist::CUBIST_ABI
{

/// A view, for all ranks of `mesh`, of a matrix that stage `first` holds, and also stage `second`
/// if that is another one.
/// @param of_stage  on the mesh of this rank's stage or, if that holds nothing of the matrix, on
/// make_other_stage_mesh(mesh)
template <class T, HasStages M>
[[nodiscard]] DistView<T, M> view_of_stage(const M& mesh, const DistView<T, StageMesh<M>>& of_stage,
                                           int first, int second)
{
  DistView<T, M> view{mesh, of_stage.shape, of_stage.quanta, of_stage.padded};
  view.stages.first = first;
  view.stages.second = second;
  view.stages.mesh_of = of_stage.mesh;
  view.stages.block_of = of_stage.block_of;
  view.stages.primary = of_stage.primary;
  view.stages.replicas = of_stage.replicas;
  view.stages.part_of = of_stage.part_of;
  return view;
}
template <class T, HasStages M>
[[nodiscard]] DistView<T, M> view_of_stage(const M& mesh, const DistView<T, StageMesh<M>>& of_stage,
                                           int stage)
{
  return view_of_stage(mesh, of_stage, stage, stage);
}

}  // namespace cubist::CUBIST_ABI
