// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// All P ranks on one axis, with layers in pairs: the first one cuts W by columns, the second one by
// rows, so that nothing is sent between them.
//
//   column half   X (M, K) replicated      W (K, N) cols [t]    Y (M, N) cols [t]
//   row half      X (M, K) cols [t]        W (K, N) rows [t]    Y (M, N) replicated
//
// The forward pass all-reduces Y of the row half, and the backward pass dX of the column half. With
// sequence parallelism the replicated activations are cut by rows, rows [t]. They take P times less
// memory, and each all_reduce becomes an all_gather before the column half and a reduce_scatter
// after the row half.
//
// Elements that one rank sends, for a pair h -> 4h -> h: 2(P-1)/P M h in forward, and the same in
// backward. With sequence parallelism backward sends (P-1)/P M h more, unless the gathered X is
// kept.
// Source: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3; Korthikanti et al., "Reducing
// Activation Recomputation in Large Transformer Models", arXiv 2205.05198, section 4.2.

#include <cstddef>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The members that both halves of a pair share.
/// @tparam Between the layout of activations between pairs
template <class Between>
struct MegatronPair
{
  static constexpr const char* name =
      Between::template cuts<Tensor> ? "Megatron1DSequence" : "Megatron1D";

  using Axes = cubist::Axes<Tensor>;

  /// The number of ranks.
  struct Extents
  {
    int p = 0;  ///< ranks; 0: all
  };

  /// Returns the extents.
  /// @throws MeshError unless p is `ranks`
  [[nodiscard]] static Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::free_extents<1>(name, ranks, {{{"p", requested.p}}});
  }

  [[nodiscard]] static constexpr bool fits(const Axes::Array& e) { return e[0] >= 1; }

  [[nodiscard]] static constexpr std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(e[0]);
  }
};

template <class Between>
struct MegatronRowHalf;

/// The first layer of a pair: W is cut by columns.
template <class Between>
struct MegatronColumnHalf : MegatronPair<Between>
{
  using Input = Between;
  using Weight = Layout<Rows<>, Cols<Tensor>>;
  using Output = Layout<Rows<>, Cols<Tensor>>;
  using Next = MegatronRowHalf<Between>;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;
};

/// The second layer of a pair: W is cut by rows.
template <class Between>
struct MegatronRowHalf : MegatronPair<Between>
{
  using Input = Layout<Rows<>, Cols<Tensor>>;
  using Weight = Layout<Rows<Tensor>, Cols<>>;
  using Output = Between;
  using Next = MegatronColumnHalf<Between>;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;
};

/// Replicates the activations between pairs.
using Megatron1D = MegatronColumnHalf<Layout<Rows<>, Cols<>>>;

/// Cuts the activations between pairs by rows.
using Megatron1DSequence = MegatronColumnHalf<Layout<Rows<Tensor>, Cols<>>>;

static_assert(SchemeType<Megatron1D> && SchemeType<Megatron1DSequence>);

}  // namespace cubist::CUBIST_ABI
