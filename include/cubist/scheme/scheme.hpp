// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A scheme is a type without data that has these members:
//
//   Axes, Extents, extents, quantum,  the axes of its mesh, and which extents they may have
//   fits
//   Input, Weight, Output             the layouts of a layer's three matrices,
//                                     X (M, K), W (K, N) and Y = X W (M, N)
//   Next                              the scheme of the next layer, whose Input is this Output
//   Algorithm                         the algorithm that multiplies by collectives: Summa or
//                                     GatherMultiplyScatter
//
// The scheme alone does not decide which algorithm runs; `DistMatMul::method()` tells which one
// does:
//
//   1. where all ranks of the mesh can read each other's memory, as threads and the processes of
//      one node can: the direct product (algorithm/direct/), which follows from the layouts alone;
//   2. elsewhere, as between nodes and on GPUs: the scheme's Algorithm, SUMMA (algorithm/summa/)
//      or gather-multiply-scatter (algorithm/gather/).
//
// `Method::direct` and `Method::collectives` (algorithm/options.hpp) force the first or the second.

#include <concepts>

#include "cubist/algorithm/options.hpp"
#include "cubist/algorithm/product_plan.hpp"
#include "cubist/scheme/mesh.hpp"

namespace cubist::CUBIST_ABI
{

// clang-format off
template <class S>
concept SchemeType = MeshShape<S> && MeshShape<typename S::Next> && requires(typename S::Axes::Array e) {
  typename S::Input;
  typename S::Weight;
  typename S::Output;
  typename S::Algorithm;
  { S::name } -> std::convertible_to<const char*>;
  { S::fits(e) } -> std::same_as<bool>;
  requires std::same_as<typename S::Next::Input, typename S::Output>;
  requires std::same_as<typename S::Next::Axes, typename S::Axes>;
};

/// Whether a type is a Pipeline, which runs a scheme in stages (scheme/pipeline.hpp).
template <class S>
inline constexpr bool is_pipeline = false;

/// A type that says how a network is cut: a scheme, or a Pipeline of one.
template <class S>
concept NetworkScheme = SchemeType<S> || is_pipeline<S>;

/// A type that runs a scheme in stages: each stage has scheme S::StageScheme.
template <class S>
concept PipelineScheme = NetworkScheme<S> && is_pipeline<S>;
// clang-format on

}  // namespace cubist::CUBIST_ABI
