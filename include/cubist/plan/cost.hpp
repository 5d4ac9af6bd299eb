// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes what a linear layer costs by collectives on a scheme and mesh, from the scheme's layouts
// and algorithm. A new scheme that uses one of the two algorithms needs no code here.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y = X W (M, N) S::Output
//
// Summa: one matrix is stationary. Panels of the other two are broadcast if they are operands of
// the product, or reduced if they are its result. They travel along the innermost axis of the
// dimension that the stationary matrix lacks.
//
// Elements that one rank sends in forward on r x c ranks (backward sends twice as many):
//
//   Y stationary  (c-1)/rc MK + (r-1)/rc KN
//   X stationary  (c-1)/rc MN + (r-1)/rc KN
//   W stationary  (c-1)/rc MK + (r-1)/rc MN
//
// GatherMultiplyScatter: operands are gathered along their common axis, results are summed and
// scattered along it, or all-reduced (local_product.hpp). On x x y x z ranks, one rank sends
// [(y-1) MK + (z-1) KN + (x-1) MN] / xyz elements in forward. Backward gathers dY once for both
// gradients, so it sends as many, and [(y-1) MK + (z-1) KN] / xyz more if X and W are gathered
// again.
//
// Both: the gradient of W is all-reduced along the axes of PendingAxes. On P ranks, each sends
// 2(P-1)/P of its block. Sizes are padded to the scheme's quantum, or to other quanta.
//
// The members called `words` count elements.
// Source: the schemes' headers.

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/algorithm/summa/panel_coalescing.hpp"
#include "cubist/algorithm/summa/summa.hpp"
#include "cubist/plan/cutting.hpp"
#include "cubist/plan/work.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

constexpr void add(Work& work, CallKind collective, LayerMatrix which, const AxisOfMesh& axis,
                   std::size_t count, std::size_t times = 1, std::size_t slices = 1)
{
  if (axis.extent > 1)
    work.transfers.add({collective, which, axis.extent, axis.stride, count, times, slices});
}

/// Adds one all_reduce of a block over its replicas along some axes.
constexpr void add_all_reduce(Work& work, const CutMatrix& result, const AxisTuple& axes)
{
  const AxisOfMesh together{0, static_cast<int>(axes.parts()), axes.innermost().stride};
  add(work, CallKind::all_reduce, result.which, together, result.block.size());
}

/// Returns the sizes of the local product that computes this result, from m, n and k of forward.
[[nodiscard]] constexpr LocalGemm local_gemm(LayerMatrix result, std::size_t m, std::size_t n,
                                             std::size_t k, std::size_t times = 1)
{
  if (result == LayerMatrix::x) return {m, k, n, times};
  if (result == LayerMatrix::w) return {k, n, m, times};
  return {m, n, k, times};
}

/// A matrix whose panels are sent, the axis along which they travel, and how many indices a rank
/// holds of the dimension that is cut into panels.
struct Moving
{
  const CutMatrix& matrix;
  AxisOfMesh along;
  std::size_t indices;
};

[[nodiscard]] constexpr Cost summa_cost(Stationary stationary, const CutProduct& p)
{
  constexpr std::size_t far_depth = 256;  // as in Summa
  const bool output = stationary == Stationary::output;
  const bool input = stationary == Stationary::input;
  const Moving a = output  ? Moving{p.x, p.x.cols.innermost(), p.x.block.cols}
                   : input ? Moving{p.w, p.w.cols.innermost(), p.w.block.cols}
                           : Moving{p.x, p.x.rows.innermost(), p.x.block.rows};
  const Moving b = output  ? Moving{p.w, p.w.rows.innermost(), p.w.block.rows}
                   : input ? Moving{p.y, p.y.cols.innermost(), p.y.block.cols}
                           : Moving{p.y, p.y.rows.innermost(), p.y.block.rows};
  const auto panels = static_cast<std::size_t>(std::lcm(a.along.extent, b.along.extent));
  const auto panel = [panels](const Moving& m) {
    return m.matrix.block.size() * static_cast<std::size_t>(m.along.extent) / panels;
  };
  const std::size_t deep = a.indices * static_cast<std::size_t>(a.along.extent) / panels;
  const std::size_t slices = std::max<std::size_t>(1, ceil_div(deep, far_depth));
  const std::size_t m = output || input ? p.y.block.rows : deep;
  const std::size_t n = input ? deep : p.w.block.cols;
  const std::size_t k = output ? deep : input ? p.x.block.cols : p.w.block.rows;
  const auto product = [&](Work& work, LayerMatrix result) {
    for (const Moving* moving : {&a, &b})
      add(work, moving->matrix.which == result ? CallKind::reduce : CallKind::broadcast,
          moving->matrix.which, moving->along, panel(*moving), panels, slices);
    work.products.add(local_gemm(result, m, n, k, panels));
    work.far_products.add(local_gemm(result, output || input ? m : ceil_div(m, slices),
                                     input ? ceil_div(n, slices) : n,
                                     output ? ceil_div(k, slices) : k, panels * slices));
  };
  Cost cost;
  product(cost.forward, LayerMatrix::y);
  product(cost.backward, LayerMatrix::x);
  product(cost.backward, LayerMatrix::w);
  product(cost.backward_weight, LayerMatrix::w);
  product(cost.backward_input, LayerMatrix::x);
  // Each product has buffers for two panels of a matrix that is broadcast, and for the terms and
  // sums of two panels of a matrix that is reduced. Between nodes it has buffers for four slices of
  // panels. Thin panels are coalesced.
  const auto workspace = [&](std::size_t buffers, std::size_t depth, std::size_t count) {
    const std::size_t all = panel(a) / deep + panel(b) / deep;
    return all * (4 * buffers * depth + coalesced_depth(depth, count));
  };
  const std::size_t slice = std::min(deep, far_depth);
  cost.near_workspace = workspace(2, deep, panels);
  cost.far_workspace = workspace(4, slice, panels * slices);
  cost.reach = std::max(a.along.extent * a.along.stride, b.along.extent * b.along.stride);
  return cost;
}

/// A matrix, and the axes along which its ranks communicate: the axis along which it is gathered
/// and scattered, or those along which it is summed as a result.
struct CommunicatedMatrix
{
  const CutMatrix& matrix;
  AxisTuple along;
  Dimension cut;

  /// The shape of all blocks together.
  [[nodiscard]] constexpr Shape all() const
  {
    return {matrix.block.rows * pieces(Dimension::rows),
            matrix.block.cols * pieces(Dimension::cols)};
  }
  /// The number of pieces of a dimension.
  [[nodiscard]] constexpr std::size_t pieces(Dimension d) const
  {
    return cut == d ? along.parts() : 1;
  }
  constexpr void gather(Work& work) const
  {
    if (cut != Dimension::none)
      add(work, CallKind::all_gather, matrix.which, along.innermost(), matrix.block.size());
  }
  constexpr void sum(Work& work) const
  {
    if (cut != Dimension::none)
      add(work, CallKind::reduce_scatter, matrix.which, along.innermost(), matrix.block.size());
    else
      add_all_reduce(work, matrix, along);
  }
  /// The size of the buffer for the gathered operand, or for the terms of a result.
  [[nodiscard]] constexpr std::size_t gathered_size() const
  {
    return along.parts() > 1 ? all().size() : 0;
  }
  /// The size of the buffer for the sum that is scattered to a rank, for this number of pieces.
  [[nodiscard]] constexpr std::size_t sum_size(std::size_t pieces) const
  {
    return cut != Dimension::none && along.parts() > 1 ? pieces * matrix.block.size() : 0;
  }
};

[[nodiscard]] constexpr Cost gather_multiply_scatter_cost(const CommunicatedMatrix& x,
                                                          const CommunicatedMatrix& w,
                                                          const CommunicatedMatrix& y,
                                                          Gathered policy, int ranks)
{
  // If two matrices share a dimension, only those that cut it are padded.
  const std::size_t m = std::min(x.all().rows, y.all().rows);
  const std::size_t k = std::min(x.all().cols, w.all().rows);
  const std::size_t n = std::min(w.all().cols, y.all().cols);

  constexpr auto rows = Dimension::rows;
  constexpr auto cols = Dimension::cols;
  // Blocks of columns are multiplied one by one; between nodes also blocks of rows, as they arrive.
  const auto add_product = [&](Work& work, LayerMatrix result) {
    work.in_pieces = true;
    const std::size_t ns = y.pieces(cols);
    const std::size_t ks = x.pieces(cols);
    work.products.add(local_gemm(result, m, ceil_div(n, ns), ceil_div(k, ks), ns * ks));
    // The number of pieces of a dimension that two matrices cut.
    const auto both = [](std::size_t p, std::size_t q) { return p + q - std::gcd(p, q); };
    const std::size_t far_m = both(x.pieces(rows), y.pieces(rows));
    const std::size_t far_n = both(w.pieces(cols), y.pieces(cols));
    const std::size_t far_k = both(x.pieces(cols), w.pieces(rows));
    work.far_products.add(local_gemm(result, ceil_div(m, far_m), ceil_div(n, far_n),
                                     ceil_div(k, far_k), far_m * far_n * far_k));
  };

  Cost cost;
  x.gather(cost.forward);
  w.gather(cost.forward);
  add_product(cost.forward, LayerMatrix::y);
  y.sum(cost.forward);

  const auto add_backward = [&](Work& work, bool with_input, bool with_weight) {
    y.gather(work);
    if (with_input && policy == Gathered::again) w.gather(work);
    if (with_weight && policy == Gathered::again) x.gather(work);
    if (with_input) add_product(work, LayerMatrix::x);
    if (with_weight) add_product(work, LayerMatrix::w);
    if (with_input) x.sum(work);
    if (with_weight) w.sum(work);
  };
  add_backward(cost.backward, true, true);
  add_backward(cost.backward_weight, false, true);
  add_backward(cost.backward_input, true, false);
  // X, W, Y, dX and dW each have a buffer. Between nodes, each rank's terms of a sum have one.
  const std::size_t gathered = 2 * (x.gathered_size() + w.gathered_size()) + y.gathered_size();
  cost.near_workspace = gathered + 2 * (x.sum_size(1) + w.sum_size(1)) + y.sum_size(1);
  cost.far_workspace = gathered + 2 * (x.sum_size(x.along.parts()) + w.sum_size(w.along.parts())) +
                       y.sum_size(y.along.parts());
  cost.reach = ranks;
  return cost;
}

/// The cost of an algorithm for the matrices of a scheme with axes `A`.
template <class A, class R, class C, Stationary stationary>
[[nodiscard]] constexpr Cost cost_of(Summa<R, C, stationary>, const CutProduct& p,
                                     const typename A::Array&, Gathered)
{
  return summa_cost(stationary, p);
}

template <class A, class X, class W, class Y>
[[nodiscard]] constexpr Cost cost_of(GatherMultiplyScatter<X, W, Y>, const CutProduct& p,
                                     const typename A::Array& extents, Gathered policy)
{
  using Local = LocalProduct<X, W, Y>;
  const auto communicated = [&]<class Part>(const CutMatrix& matrix, Part) {
    return CommunicatedMatrix{matrix, tuple_of<A>(typename Part::CollectiveAxes{}, extents),
                              Part::cut};
  };
  return gather_multiply_scatter_cost(
      communicated(p.x, typename Local::Input{}), communicated(p.w, typename Local::Weight{}),
      communicated(p.y, typename Local::Output{}), policy, A::ranks(extents));
}

}  // namespace detail

/// Returns the cost of a layer by collectives, for one rank of a mesh.
/// @pre S::fits(extents)
template <SchemeType S>
[[nodiscard]] constexpr Cost cost(const typename S::Axes::Array& extents, ProductSize size,
                                  Gathered policy = Gathered::kept, ProductQuanta quanta = {})
{
  const auto p = detail::cut_product<S>(extents, size, quanta);
  Cost c = detail::cost_of<typename S::Axes>(typename S::Algorithm{}, p, extents, policy);
  detail::add_all_reduce(c.backward, p.w, p.pending);
  detail::add_all_reduce(c.backward_weight, p.w, p.pending);
  return c;
}

}  // namespace cubist::CUBIST_ABI
