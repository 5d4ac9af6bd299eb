// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes the softmax of each row of a distributed matrix without gathering rows.
//
//   X (M, N), Y (M, N): any layout
//
//   Y(i, j) = exp(s X(i, j) - max_k s X(i, k)) / sum_k exp(s X(i, k) - max)
//
// Elements that one rank sends: 4 (p-1)/p per row, p being the number of ranks along the axes that
// cut the columns.

#include <cstddef>
#include <limits>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/vector_math.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/row_reduction.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns exp(scale x - max) with the row's maximum.
template <RealScalar T>
struct ShiftedPower
{
  const T* max;
  T scale;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t, T x) const
  {
    // A product that is not rounded before the subtraction may exceed the maximum.
    const T negative = scale * x - max[i];
    return exp_of_negative(pick(is_less(T{}, negative), T{}, negative));
  }
};

/// Divides x by the row's sum.
template <RealScalar T>
struct DivideByRowSum
{
  const T* sum;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t, T x) const { return x / sum[i]; }
};

}  // namespace detail

/// Computes Y = softmax(scale X), row by row; Y may be X. Every rank of the mesh calls this.
/// @throws ShapeError unless X and Y agree in shape and mesh, ArgumentError for a scale that is not
/// finite
template <RealScalar T, class L, class M>
void softmax(const DistMatrix<T, L, M>& x, DistMatrix<T, L, M>& y,
             Accumulator<T> scale = Accumulator<T>{1})
{
  require<ShapeError>(x.shape() == y.shape() && x.mesh() == y.mesh(), "got a matrix of ", x.shape(),
                      " whose softmax goes to one of ", y.shape(),
                      ", but they must agree in shape and mesh; make one like the other");
  require<ArgumentError>(is_finite(scale), "got a scale of ", scale,
                         " for a softmax, so its results would be NaN; use a finite scale");
  const auto& engine = x.mesh().engine();
  const MatrixView<const T> in = x.valid();
  using A = Accumulator<T>;
  detail::RowReduction<A, L, M> maxima{x.mesh(), in.rows(), -std::numeric_limits<A>::infinity()};
  const A* max = maxima.combine(ReduceOp::max, detail::Larger{}, detail::Scaled<A>{scale}, in);
  engine.map_indexed(y.valid(), detail::ShiftedPower<A>{max, scale}, in);
  const MatrixView<const T> powers = y.valid();
  detail::RowReduction<A, L, M> sums{y.mesh(), powers.rows(), A{}};
  const A* sum = sums.combine(ReduceOp::sum, detail::Sum{}, detail::Itself{}, powers);
  engine.map_indexed(y.valid(), detail::DivideByRowSum<A>{sum}, powers);
}

}  // namespace cubist::CUBIST_ABI
