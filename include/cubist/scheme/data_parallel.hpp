// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A scheme on d meshes side by side. Each mesh multiplies its share of the rows (its batch) by the
// same weights.
//
//   X (M, K), Y (M, N): rows [data, those of S] cols as in S
//   W (K, N): as in S, replicated along data; its gradient is summed along data
//
//   Mesh<DataParallel<Summa2D>, Threads> mesh{world, {.data = 2, .scheme = {.q = 2}}};
//
// Elements that one rank sends: those of S on one mesh for M/d rows, and in backward 2(d-1)/d of
// its block of W.
// Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3; Dean et al., "Large Scale
// Distributed Deep Networks", 2012.

#include <type_traits>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/front_axis.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <NetworkScheme S>
struct DataParallel;

namespace detail
{

/// A layout with Data before the axes that cut the rows.
template <class>
struct WithDataRows;
template <class... R, class Cols>
struct WithDataRows<Layout<Rows<R...>, Cols>>
{
  using type = Layout<Rows<Data, R...>, Cols>;
};

/// The algorithm of `S`, with the layouts of this scheme in place of those of `S`.
template <class Algorithm, class S>
struct AlgorithmFor
{
  using type = Algorithm;
};
template <class X, class W, class Y, class S>
struct AlgorithmFor<GatherMultiplyScatter<X, W, Y>, S>
{
  using type = GatherMultiplyScatter<typename S::Input, typename S::Weight, typename S::Output>;
};

/// The layouts of a scheme on several meshes side by side.
template <class S>
struct DataParallelLayouts
{
  using Input = typename WithDataRows<typename S::Input>::type;
  using Weight = typename S::Weight;
  using Output = typename WithDataRows<typename S::Output>::type;
};

inline constexpr char data_parallel_name[] = "DataParallel";

/// The members that DataParallel<S> has for products, or for a network in stages.
template <class S>
struct DataParallelParts : DataParallelLayouts<S>
{
  using Algorithm = typename AlgorithmFor<typename S::Algorithm, DataParallelLayouts<S>>::type;
};
template <PipelineScheme S>
struct DataParallelParts<S> : DataParallelLayouts<S>
{
  /// The scheme of a stage, on the ranks of all pipelines.
  using StageScheme = DataParallel<typename S::StageScheme>;
};

}  // namespace detail

/// @tparam S a scheme, or a Pipeline (scheme/pipeline.hpp), which cuts each mesh into stages
template <NetworkScheme S>
struct DataParallel : detail::FrontAxis<detail::data_parallel_name, Data, S>,
                      detail::DataParallelParts<S>
{
  using Scheme = S;  ///< the scheme of each mesh
  using Axes = typename DataParallel::FrontAxis::Axes;
  using Next = std::conditional_t<std::is_same_v<S, typename S::Next>, DataParallel,
                                  DataParallel<typename S::Next>>;

  /// The number of meshes, and the extents of each. If `data` is left out, it is the smallest
  /// number for which the scheme has a mesh on each part of the ranks.
  struct Extents
  {
    int data = 0;                     ///< meshes side by side; 0: derived from the number of ranks
    typename S::Extents scheme = {};  ///< the extents of each mesh
  };

  /// Returns (data, the scheme's extents).
  /// @throws MeshError unless their product is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return DataParallel::extents_along("data", requested.data, requested.scheme, ranks);
  }
};

/// Pipelines side by side have stages, too.
template <class S>
inline constexpr bool is_pipeline<DataParallel<S>> = is_pipeline<S>;

}  // namespace cubist::CUBIST_ABI
