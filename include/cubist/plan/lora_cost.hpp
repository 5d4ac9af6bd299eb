// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes what LoRA's thin matrices beside a linear layer (nn/dense/lora.hpp) cost, from the
// layouts of the scheme:
//
//   X (M, K) S::Input    A (K, r) rows like X's columns
//   Y (M, N) S::Output   B (r, N) columns like Y's
//
// Elements that one rank sends in forward, if it has m rows of X, and all A together have n
// columns:
//
//   (g-1) m n + (f-1)/f (g m) n + 2 (c-1)/c (g m / f) n
//
// with g ranks along the axis that cuts X's rows alone, f along the one that cuts Y's alone, and c
// along the other axes that cut X's columns. Backward sends as much with X and Y swapped. Summing
// the gradients over the p replicas with other rows sends 2 (p-1)/p of a rank's blocks of A and B.

#include <algorithm>
#include <cstddef>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/comm/call.hpp"
#include "cubist/core/block.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/plan/cost.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/work.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The cost of A and B beside one weight, or beside several with the same X, for one rank of a
/// mesh.
struct LoraCost
{
  Work forward;              ///< P = X A, Y += s P B
  Work backward;             ///< dP = s dY B^T, dA, dB, dX += dP A^T, without the sums of dA and dB
  Work sum_a;                ///< the sum of dA over replicas, for all A
  Work sum_b;                ///< the sum of dB over replicas
  Shape a;                   ///< a rank's block of one A
  Shape b;                   ///< a rank's block of all B
  std::size_t thin = 0;      ///< elements of P on a rank, or of dP
  std::size_t a_copies = 1;  ///< ranks that hold the same block of A
  std::size_t b_copies = 1;  ///< ranks that hold the same block of B
};

namespace detail
{

/// Adds the transfers of a thin matrix from rows cut like X's to rows cut like Y's, or back.
/// @param from, to  the rows of a rank's block before and after
template <class A, class Move>
constexpr void add_thin_move(Work& work, Move, std::size_t from, std::size_t to, std::size_t n,
                             const typename A::Array& extents)
{
  const auto gathered = tuple_of<A>(typename Move::Gathered{}, extents);
  const auto scattered = tuple_of<A>(typename Move::Scattered{}, extents);
  add(work, CallKind::all_gather, LayerMatrix::x, gathered.innermost(), from * n);
  add(work, CallKind::reduce_scatter, LayerMatrix::x, scattered.innermost(), to * n);
  add_all_reduce(work, {LayerMatrix::x, {}, {}, {to, n}},
                 tuple_of<A>(typename Move::Reduced{}, extents));
}

}  // namespace detail

/// Returns the cost of LoRA beside a product.
/// @param size  the size of the product with W
/// @param rank  the rank r of A and B
/// @param pairs  the number of weights that multiply this X and have an A; n is the sum of their
/// columns
/// @pre S::fits(extents)
template <SchemeType S>
[[nodiscard]] constexpr LoraCost lora_cost(const typename S::Axes::Array& extents, ProductSize size,
                                           std::size_t rank, ProductQuanta quanta = {},
                                           std::size_t pairs = 1)
{
  using A = typename S::Axes;
  using X = typename S::Input;
  using Y = typename S::Output;
  const auto p = detail::cut_product<S>(extents, size, quanta);
  const std::size_t n = rank * pairs;
  const auto [mx, k] = p.x.block;
  const auto [my, columns] = p.y.block;
  const auto ranks = static_cast<std::size_t>(A::ranks(extents));
  LoraCost cost;
  cost.thin = std::max(mx, my) * n;
  cost.a = {k, rank};
  cost.b = {rank, columns};
  cost.a_copies = ranks / p.x.cols.parts();
  cost.b_copies = ranks / p.y.cols.parts();
  detail::add_thin_move<A>(
      cost.forward,
      detail::ThinMove<typename X::RowAxes, typename Y::RowAxes, typename X::ColAxes>{}, mx, my, n,
      extents);
  cost.forward.products.add({mx, n, k});
  cost.forward.products.add({my, columns, rank});
  detail::add_thin_move<A>(
      cost.backward,
      detail::ThinMove<typename Y::RowAxes, typename X::RowAxes, typename Y::ColAxes>{}, my, mx, n,
      extents);
  cost.backward.products.add({my, rank, columns, 2});  // dP, and dB
  cost.backward.products.add({mx, k, n, 2});           // dX, and dA
  using OfA = typename PendingAxes<Transposed<RowVector<X>>, typename X::RowAxes>::type;
  using OfB = typename PendingAxes<RowVector<Y>, typename Y::RowAxes>::type;
  detail::add_all_reduce(cost.sum_a, {LayerMatrix::w, {}, {}, {k, n}},
                         detail::tuple_of<A>(OfA{}, extents));
  detail::add_all_reduce(cost.sum_b, {LayerMatrix::w, {}, {}, cost.b},
                         detail::tuple_of<A>(OfB{}, extents));
  cost.forward.far_products = cost.forward.products;
  cost.backward.far_products = cost.backward.products;
  return cost;
}

}  // namespace cubist::CUBIST_ABI
