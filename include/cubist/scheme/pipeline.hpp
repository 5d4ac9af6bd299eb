// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network in stages, one after the other. Each stage holds some of the layers, on its own mesh of
// scheme S, and passes activations to the next one.
//
//   X (M, K), Y (M, N): as in S, replicated along stage
//   a parameter: as in S, on the ranks of the stage that holds its layer
//
//   Mesh<Pipeline<Summa2D>, Threads> mesh{world, {.stages = 2, .scheme = {.q = 2}}};
//   MLP<Pipeline<Summa2D>, Threads, float> mlp{mesh, sizes, {.pipeline = {.micro_batches = 8}}};
//   loss = mlp.compute_gradients(x, labels);
//
// With a data axis several pipelines run side by side, each for its share of the rows. The axis
// comes before the stages in DataParallel<Pipeline<S>>, and after them in
// Pipeline<DataParallel<S>>. The two differ in the order of ranks, which decides whether stages or
// replicas are on different nodes.
//
// Networks are cut into stages, but products are not: only MLP and Transformer take a Pipeline as
// their scheme (NetworkScheme), and their layers have scheme S.
//
// Elements that one rank sends: those of S for the layers of its stage, in each micro-batch. In
// addition, in each of the m micro-batches, it sends its block of activations to the next stage,
// and gets as many elements of their gradient back.
// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", arXiv 2104.04473, section 2.2 (one forward, one backward).

#include <type_traits>

#include "cubist/scheme/front_axis.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

inline constexpr char pipeline_name[] = "Pipeline";

}  // namespace detail

template <SchemeType S>
struct Pipeline : detail::FrontAxis<detail::pipeline_name, PipelineStage, S>
{
  using StageScheme = S;  ///< the scheme of each stage
  using Axes = typename Pipeline::FrontAxis::Axes;
  using Input = typename S::Input;
  using Weight = typename S::Weight;
  using Output = typename S::Output;
  using Next =
      std::conditional_t<std::is_same_v<S, typename S::Next>, Pipeline, Pipeline<typename S::Next>>;

  /// The number of stages, and the extents of each. If `stages` is left out, it is the smallest
  /// number for which the scheme has a mesh on each part of the ranks.
  struct Extents
  {
    int stages = 0;  ///< one after the other; 0: as many as the scheme's extents leave
    typename S::Extents scheme = {};  ///< the extents of each stage
  };

  /// Returns (stages, the scheme's extents).
  /// @throws MeshError unless their product is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return Pipeline::extents_along("stages", requested.stages, requested.scheme, ranks);
  }
};

/// Says that these networks are in stages.
template <class S>
inline constexpr bool is_pipeline<Pipeline<S>> = true;

}  // namespace cubist::CUBIST_ABI
