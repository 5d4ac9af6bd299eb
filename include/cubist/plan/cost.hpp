// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a linear layer costs on a scheme and mesh, derived from the scheme's layouts and from which
// of the two algorithms it uses; a new scheme on these needs no line here.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y = X W (M, N) S::Output
//
// Summa: one matrix stays; the other two move along the innermost axis of the dimension that the
// one that stays lacks, panel by panel: broadcast if they are operands of a product, reduced if
// they are its result. On r x c ranks, words a rank, forward (backward is twice that):
//
//   Y stays  (c-1)/rc MK + (r-1)/rc KN
//   X stays  (c-1)/rc MN + (r-1)/rc KN
//   W stays  (c-1)/rc MK + (r-1)/rc MN
//
// GatherMultiplyScatter: what two matrices have in common cuts the local product; the one axis that
// a matrix has beyond that is gathered (operands) or scattered (results), and a result is
// all-reduced along what cuts the contracted dimension, but not the result. On x x y x z ranks:
// [(y-1) MK + (z-1) KN + (x-1) MN] / xyz; backward gathers dY once for both gradients, so it sends
// as much, and [(y-1) MK + (z-1) KN] / xyz more where X and W are gathered again.
//
// Both: the gradient of W is all-reduced along the axes of PendingAxes, on P ranks 2(P-1)/P of a
// rank's block. Sizes are padded to the scheme's quantum. Source: DESIGN.md, section 4.

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>

#include "cubist/plan/cutting.hpp"
#include "cubist/plan/work.hpp"
#include "cubist/scheme/gather_multiply_scatter.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/summa.hpp"

namespace cubist
{

namespace detail
{

constexpr void add(Work& work, Collective collective, Operand operand, const AxisOfMesh& axis,
                   std::size_t count, std::size_t times = 1)
{
  if (axis.extent > 1)
    work.transfers.add({collective, operand, axis.extent, axis.stride, count, times});
}

/// The sum of a block over the replicas along some axes at once.
constexpr void add_all_reduce(Work& work, const CutMatrix& result, const AxisTuple& axes)
{
  const AxisOfMesh together{0, static_cast<int>(axes.parts()), axes.innermost().stride};
  add(work, Collective::all_reduce, result.operand, together, result.block.size());
}

/// The sizes of the local product whose result is `result`, of forward's m, n and k.
[[nodiscard]] constexpr LocalProduct local_product(Operand result, std::size_t m, std::size_t n,
                                                   std::size_t k, std::size_t times = 1)
{
  if (result == Operand::x) return {m, k, n, times};
  if (result == Operand::w) return {k, n, m, times};
  return {m, n, k, times};
}

/// A matrix whose panels travel, and the axis along which they do.
struct Moving
{
  const CutMatrix& matrix;
  AxisOfMesh along;
};

[[nodiscard]] constexpr Cost summa_cost(Stationary stays, const CutProduct& p)
{
  const Moving a = stays == Stationary::output  ? Moving{p.x, p.x.cols.innermost()}
                   : stays == Stationary::input ? Moving{p.w, p.w.cols.innermost()}
                                                : Moving{p.x, p.x.rows.innermost()};
  const Moving b = stays == Stationary::output  ? Moving{p.w, p.w.rows.innermost()}
                   : stays == Stationary::input ? Moving{p.y, p.y.cols.innermost()}
                                                : Moving{p.y, p.y.rows.innermost()};
  const auto panels = static_cast<std::size_t>(std::lcm(a.along.extent, b.along.extent));
  const auto panel = [panels](const Moving& m) {
    return m.matrix.block.size() * static_cast<std::size_t>(m.along.extent) / panels;
  };
  const auto depth = [panels](std::size_t mine, const AxisOfMesh& along) {
    return mine * static_cast<std::size_t>(along.extent) / panels;
  };
  const std::size_t m =
      stays == Stationary::weight ? depth(p.x.block.rows, a.along) : p.y.block.rows;
  const std::size_t n =
      stays == Stationary::input ? depth(p.w.block.cols, a.along) : p.w.block.cols;
  const std::size_t k = stays == Stationary::output  ? depth(p.x.block.cols, a.along)
                        : stays == Stationary::input ? p.x.block.cols
                                                     : p.w.block.rows;
  const auto product = [&](Work& work, Operand result) {
    for (const Moving* moving : {&a, &b})
      add(work, moving->matrix.operand == result ? Collective::reduce : Collective::broadcast,
          moving->matrix.operand, moving->along, panel(*moving), panels);
    work.products.add(local_product(result, m, n, k, panels));
  };
  Cost cost;
  product(cost.forward, Operand::y);
  product(cost.backward, Operand::x);
  product(cost.backward, Operand::w);
  // Two panels at a time of what is broadcast, of the parts of what is reduced, and of their sums.
  cost.memory.workspace = 6 * (panel(a) + panel(b));
  return cost;
}

/// A matrix with the axis that cuts it beyond what it has in common with others, gathered.
struct GatheredMatrix
{
  const CutMatrix& matrix;
  AxisOfMesh along;
  Shape all;

  constexpr GatheredMatrix(const CutMatrix& m, const AxisTuple& rows, const AxisTuple& cols)
      : matrix{m}, along{m.rows.count > rows.count   ? m.rows.innermost()
                         : m.cols.count > cols.count ? m.cols.innermost()
                                                     : AxisOfMesh{}},
        all{m.block.rows * (m.rows.parts() / rows.parts()),
            m.block.cols * (m.cols.parts() / cols.parts())}
  {
  }

  constexpr void gather(Work& work) const
  {
    add(work, Collective::all_gather, matrix.operand, along, matrix.block.size());
  }
  constexpr void scatter(Work& work) const
  {
    add(work, Collective::reduce_scatter, matrix.operand, along, matrix.block.size());
  }
  /// The sum over the axes of a contracted dimension that do not cut this matrix.
  constexpr void all_reduce(Work& work, const AxisTuple& contracted) const
  {
    AxisTuple replicas;
    for (const auto& axis : contracted)
      if (!matrix.is_cut_by(axis)) replicas.axes[replicas.count++] = axis;
    add_all_reduce(work, matrix, replicas);
  }
  /// Room for all of it, where it is more than the block that the rank has.
  [[nodiscard]] constexpr std::size_t room() const { return along.extent > 1 ? all.size() : 0; }
};

[[nodiscard]] constexpr Cost gather_multiply_scatter_cost(const CutProduct& p, Gathered policy)
{
  const AxisTuple rows = common(p.x.rows, p.y.rows);
  const AxisTuple inner = common(p.x.cols, p.w.rows);
  const AxisTuple cols = common(p.w.cols, p.y.cols);
  const GatheredMatrix x{p.x, rows, inner};
  const GatheredMatrix w{p.w, inner, cols};
  const GatheredMatrix y{p.y, rows, cols};
  const std::size_t m = std::min(x.all.rows, y.all.rows);
  const std::size_t k = std::min(x.all.cols, w.all.rows);
  const std::size_t n = std::min(w.all.cols, y.all.cols);

  Cost cost;
  x.gather(cost.forward);
  w.gather(cost.forward);
  cost.forward.products.add(local_product(Operand::y, m, n, k));
  y.scatter(cost.forward);
  y.all_reduce(cost.forward, inner);

  y.gather(cost.backward);
  if (policy == Gathered::again)
  {
    w.gather(cost.backward);
    x.gather(cost.backward);
  }
  cost.backward.products.add(local_product(Operand::x, m, n, k));
  cost.backward.products.add(local_product(Operand::w, m, n, k));
  x.scatter(cost.backward);
  x.all_reduce(cost.backward, cols);
  w.scatter(cost.backward);
  // Each gathered matrix and each sum to be scattered has room of its own, and so has the block
  // that a sum is scattered to.
  cost.memory.workspace = 2 * (x.room() + w.room()) + y.room();
  return cost;
}

/// What an algorithm of section 4 costs.
template <class Algorithm>
struct CostOf;

template <class R, class C, Stationary stays>
struct CostOf<Summa<R, C, stays>>
{
  [[nodiscard]] static constexpr Cost of(const CutProduct& p, Gathered)
  {
    return summa_cost(stays, p);
  }
};

template <class X, class W, class Y>
struct CostOf<GatherMultiplyScatter<X, W, Y>>
{
  [[nodiscard]] static constexpr Cost of(const CutProduct& p, Gathered policy)
  {
    return gather_multiply_scatter_cost(p, policy);
  }
};

}  // namespace detail

/// What a layer costs one rank of a mesh.
/// @pre S::fits(extents)
template <class S>
[[nodiscard]] constexpr Cost cost(const typename S::Axes::Array& extents, ProductSize size,
                                  Gathered policy = Gathered::kept)
{
  const auto p = detail::cut_product<S>(extents, size);
  Cost c = detail::CostOf<typename S::Algorithm>::of(p, policy);
  detail::add_all_reduce(c.backward, p.w, p.pending);
  c.memory.parameters = 2 * p.w.block.size();
  c.memory.activations = 2 * (p.x.block.size() + p.y.block.size());
  return c;
}

}  // namespace cubist
