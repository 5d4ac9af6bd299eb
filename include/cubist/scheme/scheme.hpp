// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a scheme is: the axes of its mesh, how the three matrices of a layer are cut, what the next
// layer sees, and the algorithm that multiplies them. A scheme is a type without data; its
// algorithm's `Plan` owns the workspace.
//
//   X (M, K) Input      W (K, N) Weight      Y = X W (M, N) Output

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "cubist/core/block.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist
{

/// The padded blocks of one rank, of op(X), op(W) and Y: what a plan is made for.
struct LocalShapes
{
  Shape x;
  Shape w;
  Shape y;
};

/// How the operands of a product lie in memory: Y = op(X) op(W).
struct Ops
{
  Op x = Op::none;
  Op w = Op::none;
};

/// Whether a plan keeps what it gathered in forward until backward (more memory, fewer words), or
/// gathers it again.
enum class Gathered : bool
{
  again,
  kept
};

/// How a rank gets the operands of a product that other ranks hold.
enum class Method : std::uint8_t
{
  automatic,    // direct where every rank of the mesh can read the others' memory, else collectives
  collectives,  // by the scheme's own algorithm, S::Algorithm
  direct,       // in place, out of the peers' memory: algorithm/direct/direct_product.hpp
  fastest [[deprecated("use Method::automatic")]] = automatic,
  owner_computes [[deprecated("use Method::direct")]] = direct,
};

// clang-format off
template <class S>
concept Scheme = MeshShape<S> && MeshShape<typename S::Next> && requires {
  typename S::Input;
  typename S::Weight;
  typename S::Output;
  typename S::Algorithm;
  { S::name } -> std::convertible_to<const char*>;
  requires std::same_as<typename S::Next::Input, typename S::Output>;
  requires std::same_as<typename S::Next::Axes, typename S::Axes>;
};
// clang-format on

}  // namespace cubist
