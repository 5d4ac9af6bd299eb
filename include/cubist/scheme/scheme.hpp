// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a scheme is: a type without data that gives
//
//   Axes, Extents, extents, quantum   the axes of its mesh, and which extents they may have
//   Input, Weight, Output             the layouts of the three matrices of a layer,
//                                     X (M, K), W (K, N) and Y = X W (M, N)
//   Next                              the scheme of the next layer, whose Input is this Output
//   Algorithm                         which algorithm multiplies by collectives: Summa or
//                                     GatherMultiplyScatter
//
// One of three algorithms runs. Where all ranks of the mesh can read each other's memory, it is the
// direct product (algorithm/direct/), for every scheme, as it follows from the layouts alone;
// elsewhere, or for Method::collectives, it is the scheme's own, SUMMA (algorithm/summa/) or
// gather-multiply-scatter (algorithm/gather/). `DistMatMul::method()` says which.

#include <concepts>
#include <cstdint>

#include "cubist/algorithm/product_plan.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI
{

/// How a rank gets the blocks of operands that other ranks hold.
enum class Method : std::uint8_t
{
  automatic,    // direct if every rank of the mesh can read the others' memory, else collectives
  collectives,  // S::Algorithm
  direct,       // reads peers' memory in place: algorithm/direct/direct_product.hpp
  fastest [[deprecated("use Method::automatic")]] = automatic,   ///< the former name
  owner_computes [[deprecated("use Method::direct")]] = direct,  ///< the former name
};

// clang-format off
template <class S>
concept SchemeType = MeshShape<S> && MeshShape<typename S::Next> && requires {
  typename S::Input;
  typename S::Weight;
  typename S::Output;
  typename S::Algorithm;
  { S::name } -> std::convertible_to<const char*>;
  requires std::same_as<typename S::Next::Input, typename S::Output>;
  requires std::same_as<typename S::Next::Axes, typename S::Axes>;
};
// clang-format on

}  // namespace cubist::CUBIST_ABI
