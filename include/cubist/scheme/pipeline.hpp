// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network in stages, one after the other: each stage has a part of the layers, on a mesh of
// scheme S of its own, and passes activations to the next one.
//
//   X (M, K), Y (M, N): as S's, replicated along stage
//   a parameter: as S's, on the ranks of the stage that has its layer
//
//   Mesh<Pipeline<Summa2D>, Threads> mesh{world, {.stages = 2, .scheme = {.q = 2}}};
//   MLP<Pipeline<Summa2D>, Threads, float> mlp{mesh, sizes, {.pipeline = {.micro_batches = 8}}};
//   loss = mlp.compute_gradients(x, labels);
//
// With a data axis several pipelines are side by side, each for its share of the rows. The axis is
// in front of the stages in DataParallel<Pipeline<S>>, and behind them in
// Pipeline<DataParallel<S>>. The two differ in the order of ranks, which decides whether stages or
// replicas are on different nodes.
//
// Networks are cut in stages, products are not: a Pipeline is a scheme of MLP and Transformer only
// (NetworkScheme), whose layers are those of scheme S.
//
// Words a rank: those of S for the layers of its stage, in each micro-batch. In addition each stage
// sends a rank's block of activations to the next stage in each of the m micro-batches, and as much
// comes back for its gradient.
// Source: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", arXiv 2104.04473, section 2.2 (one forward, one backward).

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <type_traits>

#include "cubist/core/error.hpp"
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

template <class>
struct BehindStage;
template <class... A>
struct BehindStage<Axes<A...>>
{
  using type = Axes<PipelineStage, A...>;
};

/// "Pipeline<", the name, ">"
template <class S>
constexpr auto pipeline_name()
{
  constexpr std::string_view front = "Pipeline<";
  constexpr std::string_view name = S::name;
  std::array<char, front.size() + name.size() + 2> text{};
  std::size_t i = 0;
  for (const char c : front) text[i++] = c;
  for (const char c : name) text[i++] = c;
  text[i] = '>';
  return text;
}

template <class S>
inline constexpr auto pipeline_text = pipeline_name<S>();

/// The extents of a scheme behind that of one more axis.
template <class A, class S>
[[nodiscard]] constexpr typename S::Axes::Array extents_without_first(const typename A::Array& e)
{
  typename S::Axes::Array rest{};
  for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = e[i + 1];
  return rest;
}

/// The extents on axes A of a number of meshes of scheme S. The number 0 stands for the smallest
/// one for which the scheme has a mesh on each part of the ranks.
/// @param extent  the name of the number
/// @throws MeshError unless they multiply up to `ranks`
template <class A, class S>
[[nodiscard]] typename A::Array extents_behind(const char* name, const char* extent, int meshes,
                                               const typename S::Extents& requested, int ranks)
{
  const auto extents_of = [&](int n) {
    const auto scheme = S::extents(requested, ranks / n);
    typename A::Array e{n};
    for (std::size_t i = 0; i < scheme.size(); ++i) e[i + 1] = scheme[i];
    return e;
  };
  require_extents(name, ranks, {{extent, meshes}});
  require<MeshError>(meshes == 0 || ranks % meshes == 0, name, " got .", extent, " = ", meshes,
                     " for ", ranks, " ranks, which cannot be divided into that many meshes; use .",
                     extent, " = ", largest_divisor(ranks, std::max(meshes, 1)), ", or ",
                     ranks_on({meshes, ranks / std::max(meshes, 1) + 1}), " ranks");
  if (meshes != 0) return extents_of(meshes);
  for (int n = 1; n <= ranks; ++n)
    if (ranks % n == 0)
    {
      try
      {
        return extents_of(n);
      }
      catch (const MeshError&)
      {
        continue;  // the scheme has no mesh of this many ranks: try more and smaller ones
      }
    }
  return extents_of(1);  // throws, and names extents that fit
}

}  // namespace detail

template <SchemeType S>
struct Pipeline
{
  static constexpr const char* name = detail::pipeline_text<S>.data();

  using StageScheme = S;  ///< the scheme of each stage
  using Axes = typename detail::BehindStage<typename S::Axes>::type;
  using Input = typename S::Input;
  using Weight = typename S::Weight;
  using Output = typename S::Output;
  using Next =
      std::conditional_t<std::is_same_v<S, typename S::Next>, Pipeline, Pipeline<typename S::Next>>;

  /// The number of stages, and the extents of each. If `stages` is left out, it is the smallest
  /// number for which the scheme has a mesh on each part of the ranks.
  struct Extents
  {
    int stages = 0;                   ///< one after the other; 0: what the scheme's extents leave
    typename S::Extents scheme = {};  ///< the extents of each stage
  };

  /// (stages, those of the scheme)
  /// @throws MeshError unless they multiply up to `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::extents_behind<Axes, S>(name, "stages", requested.stages, requested.scheme,
                                           ranks);
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && S::fits(detail::extents_without_first<Axes, S>(e));
  }

  /// The quantum of each stage.
  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return S::quantum(detail::extents_without_first<Axes, S>(e));
  }
};

/// Says that these networks are in stages.
template <class S>
inline constexpr bool is_pipeline<Pipeline<S>> = true;

/// Pipelines side by side.
template <SchemeType S>
struct DataParallel<Pipeline<S>>
{
  static constexpr const char* name = detail::data_parallel_text<Pipeline<S>>.data();

  using StageScheme = DataParallel<S>;  ///< of each stage, on the ranks of all pipelines
  using Axes = typename detail::BehindData<typename Pipeline<S>::Axes>::type;
  using Input = typename StageScheme::Input;
  using Weight = typename StageScheme::Weight;
  using Output = typename StageScheme::Output;
  using Next = std::conditional_t<std::is_same_v<S, typename S::Next>, DataParallel,
                                  DataParallel<Pipeline<typename S::Next>>>;

  /// The number of pipelines, and the extents of each. If `data` is left out, it is the smallest
  /// number for which the pipeline has a mesh on each part of the ranks.
  struct Extents
  {
    int data = 0;                               ///< pipelines; 0: what the others leave
    typename Pipeline<S>::Extents scheme = {};  ///< the extents of each pipeline
  };

  /// (data, stages, those of the scheme)
  /// @throws MeshError unless they multiply up to `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::extents_behind<Axes, Pipeline<S>>(name, "data", requested.data, requested.scheme,
                                                     ranks);
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && Pipeline<S>::fits(detail::extents_without_first<Axes, Pipeline<S>>(e));
  }

  /// The quantum of each stage, since Data cuts whole batches.
  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return Pipeline<S>::quantum(detail::extents_without_first<Axes, Pipeline<S>>(e));
  }
};

/// Says that these networks are in stages.
template <class S>
inline constexpr bool is_pipeline<DataParallel<Pipeline<S>>> = true;

}  // namespace cubist::CUBIST_ABI
