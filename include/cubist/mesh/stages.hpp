// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The meshes of a pipeline's stages. The ranks with the same coordinate along PipelineStage are a
// stage, and form a mesh on the other axes. Layers are made on this mesh, and know nothing about
// other stages.

#include <cstddef>
#include <type_traits>

#include "cubist/mesh/axes.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Removes PipelineStage from a list of axes, which gives `type`.
template <class Found, class... Rest>
struct RemoveStage
{
  using type = Found;
};
template <class... Found, class A, class... Rest>
struct RemoveStage<Axes<Found...>, A, Rest...>
    : RemoveStage<
          std::conditional_t<std::is_same_v<A, PipelineStage>, Axes<Found...>, Axes<Found..., A>>,
          Rest...>
{
};

template <class M>
struct MeshOfStage;
template <class... A, class B>
struct MeshOfStage<AxisMesh<Axes<A...>, B>>
{
  using type = AxisMesh<typename RemoveStage<Axes<>, A...>::type, B>;
};

}  // namespace detail

/// A mesh whose ranks are in stages.
template <class M>
concept HasStages = M::Axes::template has<PipelineStage>;

/// The type of the mesh of one stage.
template <HasStages M>
using StageMesh = typename detail::MeshOfStage<M>::type;

/// Returns the numbers of all axes of `A` except PipelineStage.
template <class A>
[[nodiscard]] constexpr auto without_stage(const typename A::Array& numbers)
{
  constexpr std::size_t stage = A::template index<PipelineStage>();
  std::array<int, A::count - 1> rest{};
  for (std::size_t i = 0, n = 0; i < A::count; ++i)
    if (i != stage) rest[n++] = numbers[i];
  return rest;
}

/// The number of stages of a mesh.
template <HasStages M>
[[nodiscard]] std::size_t stages_of(const M& mesh)
{
  return static_cast<std::size_t>(mesh.template extent<PipelineStage>());
}

/// The stage of a rank of the mesh.
template <HasStages M>
[[nodiscard]] int stage_of(const M& mesh, int rank)
{
  return mesh.coordinates(rank)[M::Axes::template index<PipelineStage>()];
}

/// The number that a rank of the mesh has in its stage's mesh.
template <HasStages M>
[[nodiscard]] int rank_in_stage(const M& mesh, int rank)
{
  using A = typename M::Axes;
  return StageMesh<M>::Axes::rank(without_stage<A>(mesh.coordinates(rank)),
                                  without_stage<A>(mesh.extents()));
}

/// Makes the mesh of this rank's stage. Every rank of the mesh calls this; idle ranks may.
template <HasStages M>
[[nodiscard]] StageMesh<M> make_stage_mesh(const M& mesh)
{
  const auto extents = without_stage<typename M::Axes>(mesh.extents());
  if (!mesh.active()) return StageMesh<M>::elsewhere(mesh.parent(), extents, mesh.quantum());
  return {split_by(mesh.world(), [&mesh](int rank) { return stage_of(mesh, rank); }), extents,
          mesh.quantum()};
}

/// Makes the mesh of a stage that is not this rank's. Matrices on it have no elements here.
template <HasStages M>
[[nodiscard]] StageMesh<M> make_other_stage_mesh(const M& mesh)
{
  return StageMesh<M>::elsewhere(mesh.parent(), without_stage<typename M::Axes>(mesh.extents()),
                                 mesh.quantum());
}

}  // namespace cubist::CUBIST_ABI
