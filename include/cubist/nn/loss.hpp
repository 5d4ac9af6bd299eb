// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Losses on a distributed output, without gathering it: what a row needs from all columns is one
// number or two, all-reduced along the axes that cut the columns.
//
//   Y (M, N), dY (M, N): any layout    labels: M class numbers, the same on every rank
//
// Words: softmax_cross_entropy sends 2 values a row, accuracy 2, along the axes of the columns.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/nn/row_values.hpp"

namespace cubist
{

namespace detail
{

template <class T, class L, class M>
double mean_over_ranks(const DistMatrix<T, L, M>& y, double sum, std::size_t count)
{
  along_axes(y.mesh(), typename L::RowAxes{}, typename L::ColAxes{}).all_reduce(std::span{&sum, 1});
  return sum / static_cast<double>(std::max<std::size_t>(count, 1));
}

inline void check_labels(std::span<const int> labels, Shape y)
{
  require<ShapeError>(labels.size() == y.rows, "got ", labels.size(), " labels for an output of ",
                      y, ", so rows would go without; give one label for each row");
  require<ShapeError>(y.rows == 0 || y.cols > 0, "got an output of ", y,
                      ", which has no class for a label to name; give it a column for each class");
  for (std::size_t i = 0; i < labels.size(); ++i)
    require<ArgumentError>(labels[i] >= 0 && static_cast<std::size_t>(labels[i]) < y.cols,
                           "got label ", labels[i], " for row ", i, " of an output with ", y.cols,
                           " classes, which has no such class; use 0 to ", y.cols - 1);
}

template <class T, class L, class M>
void check_target(const DistMatrix<T, L, M>& y, const DistMatrix<T, L, M>& other, const char* what)
{
  require<ShapeError>(y.shape() == other.shape() && y.mesh() == other.mesh(), "got an output of ",
                      y.shape(), " and a ", what, " of ", other.shape(),
                      ", which must agree in shape and mesh; make the one like the other");
}

}  // namespace detail

/// The mean over the rows of -log softmax(Y)[label]; dY, which may be Y, becomes its gradient.
/// Every rank calls it, and gets the same value.
/// @throws ShapeError unless there is one label a row, and a column; ArgumentError for a label that
/// is no class
template <RealScalar T, class L, class M>
double softmax_cross_entropy(const DistMatrix<T, L, M>& y, std::span<const int> labels,
                             DistMatrix<T, L, M>& dy)
{
  detail::require_complete<L>();
  detail::check_labels(labels, y.shape());
  detail::check_target(y, dy, "gradient");
  const auto& engine = y.mesh().engine();
  const MatrixView<const T> logits = y.valid();
  const int* label = labels.data() + y.block().rows.offset;
  const std::size_t j0 = y.block().cols.offset;
  const auto is_label = [label, j0](std::size_t i, std::size_t j) {
    return static_cast<std::size_t>(label[i]) == j0 + j;
  };

  detail::RowValues<T, L, M> maxima{y.mesh(), logits.rows(), -std::numeric_limits<T>::infinity()};
  const T* max = maxima.combine(
      ReduceOp::max, [](T a, T b) { return a < b ? b : a; },
      [](std::size_t, std::size_t, T v) { return v; }, logits);
  detail::RowValues<T, L, M> sums{y.mesh(), logits.rows(), T{}};
  const T* sum = sums.combine(
      ReduceOp::sum, [](T a, T b) { return a + b; },
      [max](std::size_t i, std::size_t, T v) { return std::exp(v - max[i]); }, logits);

  // Every row's label is on one rank along the columns, which adds the row's loss.
  const double loss = engine.fold(
      0.0, [](double a, double b) { return a + b; },
      [=](std::size_t i, std::size_t j, T v) {
        return is_label(i, j) ? static_cast<double>(std::log(sum[i]) + max[i] - v) : 0.0;
      },
      logits);
  engine.map_indexed(
      dy.valid(),
      [=, mean = T{1} / static_cast<T>(y.rows())](std::size_t i, std::size_t j, T v) {
        return (std::exp(v - max[i]) / sum[i] - (is_label(i, j) ? T{1} : T{})) * mean;
      },
      logits);
  return detail::mean_over_ranks(y, loss, y.rows());
}

/// The mean over all elements of (Y - target)^2; dY, which may be Y, becomes its gradient. Every
/// rank calls it, and gets the same value.
/// @throws ShapeError unless all three agree in shape and mesh
template <RealScalar T, class L, class M>
double mean_squared_error(const DistMatrix<T, L, M>& y, const DistMatrix<T, L, M>& target,
                          DistMatrix<T, L, M>& dy)
{
  detail::require_complete<L>();
  detail::check_target(y, target, "target");
  detail::check_target(y, dy, "gradient");
  const auto& engine = y.mesh().engine();
  const std::size_t count = std::max<std::size_t>(y.shape().size(), 1);
  const double sum = engine.fold(
      0.0, [](double a, double b) { return a + b; },
      [](std::size_t, std::size_t, T a, T b) {
        const auto d = static_cast<double>(a - b);
        return d * d;
      },
      y.valid(), target.valid());
  engine.map(
      dy.valid(), [scale = T{2} / static_cast<T>(count)](T a, T b) { return scale * (a - b); },
      y.valid(), target.valid());
  return detail::mean_over_ranks(y, sum, count);
}

/// The share of rows whose largest column (the first of equals) is their label. Every rank calls
/// it, and gets the same value.
/// @throws ShapeError unless there is one label a row, and a column; ArgumentError for a label that
/// is no class
template <RealScalar T, class L, class M>
double accuracy(const DistMatrix<T, L, M>& y, std::span<const int> labels)
{
  detail::require_complete<L>();
  using Index = std::int64_t;
  detail::check_labels(labels, y.shape());
  const MatrixView<const T> logits = y.valid();
  const int* label = labels.data() + y.block().rows.offset;

  detail::RowValues<T, L, M> maxima{y.mesh(), logits.rows(), -std::numeric_limits<T>::infinity()};
  const T* max = maxima.combine(
      ReduceOp::max, [](T a, T b) { return a < b ? b : a; },
      [](std::size_t, std::size_t, T v) { return v; }, logits);
  constexpr auto none = std::numeric_limits<Index>::max();
  detail::RowValues<Index, L, M> classes{y.mesh(), logits.rows(), none};
  classes.combine(
      ReduceOp::min, [](Index a, Index b) { return b < a ? b : a; },
      [max, j0 = y.block().cols.offset](std::size_t i, std::size_t j, T v) {
        return v == max[i] ? static_cast<Index>(j0 + j) : none;
      },
      logits);
  double hits = y.mesh().engine().fold(
      0.0, [](double a, double b) { return a + b; },
      [label](std::size_t i, std::size_t, Index c) { return c == label[i] ? 1.0 : 0.0; },
      classes.view());
  detail::along_axes(y.mesh(), typename L::RowAxes{}).all_reduce(std::span{&hits, 1});
  return hits / static_cast<double>(std::max<std::size_t>(y.rows(), 1));
}

}  // namespace cubist
