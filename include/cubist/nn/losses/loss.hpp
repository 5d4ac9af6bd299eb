// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Computes losses of a distributed output without gathering it. Along the axes that cut the
// columns, one or two numbers per row are all-reduced.
//
//   Y (M, N), dY (M, N): any layout    labels: M class numbers, the same on every rank
//
// Rows whose label is -100 are ignored: a mean is over the other rows.
//
// If a rank has whole rows, an engine that passes over rows (PassesRows) computes their
// cross-entropy in one kernel. It reads logits twice: one pass gives the maxima and the sums of
// exponentials.
// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867,
// section 3.
//
// Elements sent: softmax_cross_entropy and accuracy all-reduce 2 values per row along those axes,
// as floats for 16-bit matrices, and 3 doubles over all ranks (nn/losses/labels.hpp).
// mean_squared_error all-reduces 1 double along the axes that cut Y.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/vector_math.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss_value.hpp"
#include "cubist/nn/losses/softmax.hpp"
#include "cubist/nn/row_reduction.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

template <class T, class L, class LOther, class M>
void check_target(const DistMatrix<T, L, M>& y, const DistMatrix<T, LOther, M>& other,
                  const char* what)
{
  require<ShapeError>(y.shape() == other.shape() && y.quanta() == other.quanta() &&
                          y.mesh() == other.mesh(),
                      "got an output of ", y.shape(), " and a ", what, " of ", other.shape(),
                      ", but they must agree in shape, padding and mesh; make one like the other");
}

/// Computes the loss of a row, if this rank holds the column of its label; otherwise 0.
template <RealScalar T, RealScalar V>
struct CrossEntropy
{
  MatrixView<const V> logits;
  std::size_t j0;  // the first column of this rank
  const T* max;
  const T* sum;

  CUBIST_HOST_DEVICE double operator()(std::size_t i, std::size_t, int label) const
  {
    const std::size_t j = static_cast<std::size_t>(label) - j0;
    if (label < 0 || j >= logits.cols()) return 0;
    return static_cast<double>(std::log(sum[i]) + max[i] - static_cast<T>(logits(i, j)));
  }
};

/// Computes the derivative of the mean loss with respect to each logit of a row except its label's;
/// 0 in rows without a label.
template <RealScalar T>
struct LogitSlope
{
  T max;
  T scale;  // 1 / sum
  T mean;
  bool has_label;

  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    return pick(has_label, exp_of_negative(x - max) * scale * mean, T{});
  }
};
template <RealScalar T>
struct LogitSlopes
{
  const int* label;
  const T* max;
  const T* sum;
  T mean;

  CUBIST_HOST_DEVICE LogitSlope<T> operator()(std::size_t i) const
  {
    return {max[i], T{1} / sum[i], mean, label[i] >= 0};
  }
};

/// Computes the derivative with respect to the logit of a row's label, if this rank holds its
/// column; otherwise 0.
template <RealScalar T, RealScalar V>
struct LabelSlope
{
  MatrixView<const V> logits;
  std::size_t j0;  // the first column of this rank
  const T* max;
  const T* sum;
  T mean;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t, int label) const
  {
    const std::size_t j = static_cast<std::size_t>(label) - j0;
    if (label < 0 || j >= logits.cols()) return T{};
    return (exp_of_negative(static_cast<T>(logits(i, j)) - max[i]) * (T{1} / sum[i]) - T{1}) * mean;
  }
};

/// Writes a value to the column of its row's label, if this rank holds it.
template <RealScalar T, RealScalar V>
struct StoreAtLabel
{
  MatrixView<V> out;
  std::size_t j0;  // the first column of this rank
  const int* label;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t, T value) const
  {
    const std::size_t j = static_cast<std::size_t>(label[i]) - j0;
    if (label[i] >= 0 && j < out.cols()) out(i, j) = static_cast<V>(value);
    return value;
  }
};

/// The largest of some logits, and the sum of e^(x - max) over them.
template <RealScalar T>
struct MaximumAndPowers
{
  T max = -std::numeric_limits<T>::infinity();
  T sum = T{};

  /// Merges two partial softmax sums. A NaN among the logits makes the sum NaN.
  CUBIST_HOST_DEVICE MaximumAndPowers& operator+=(const MaximumAndPowers& other)
  {
    const bool is_larger = is_less(max, other.max);
    const T least = pick(is_larger, max, other.max);
    const T sum_of_least = pick(is_larger, sum, other.sum), rest = pick(is_larger, other.sum, sum);
    max = pick(is_larger, other.max, max);
    // Two equal maxima may be infinite, and their difference would be a NaN.
    sum = rest + sum_of_least * pick(least == max, T{1}, exp_of_negative(least - max));
    return *this;
  }
};

/// Turns one logit into a partial softmax sum.
template <RealScalar T>
struct MaximumAndPowerOf
{
  CUBIST_HOST_DEVICE MaximumAndPowers<T> operator()(T x) const { return {x, T{1}}; }
};

/// Computes a row's loss and its gradient, for a rank that has whole rows (PassesRows).
/// @tparam V  the type of logits; computations are in T
template <RealScalar T, RealScalar V>
struct CrossEntropyOfRow
{
  MatrixView<const V> logits;
  MatrixView<V> gradient;  // may be `logits`; has no data if it is not wanted
  const int* label;
  T mean;
  double* loss;

  template <class Row>
  CUBIST_HOST_DEVICE void operator()(const Row& row) const
  {
    const auto all = row.sum(MaximumAndPowerOf<T>{}, logits);
    // If the largest logit is infinite, the row becomes NaN.
    const T sum = pick(is_finite(all.max), all.sum, std::numeric_limits<T>::quiet_NaN());
    const std::size_t i = row.index();
    const bool has_label = label[i] >= 0;
    if (!has_label) row.set(loss, 0.0);
    const LogitSlope<T> slope{all.max, T{1} / sum, mean, has_label};
    // The thread that writes the gradient of the label's logit first reads the logit.
    const auto j = static_cast<std::size_t>(has_label ? label[i] : 0);
    const bool owns_label = has_label && row.owns(j, gradient, logits);
    const T x = owns_label ? static_cast<T>(logits(i, j)) : T{};
    if (owns_label) loss[i] = static_cast<double>(std::log(sum) + all.max - x);
    if (gradient.data() == nullptr) return;
    row.map(gradient, slope, logits);
    if (owns_label)
      gradient(i, j) = static_cast<V>((exp_of_negative(x - all.max) * slope.scale - T{1}) * mean);
  }
};

/// Computes the squared error of an element and its derivative.
template <RealScalar T>
struct SquaredErrorAndSlope
{
  T scale;

  CUBIST_HOST_DEVICE ValueAndTerm<T, double> operator()(std::size_t, std::size_t, T a, T b) const
  {
    const auto d = static_cast<double>(a - b);
    return {scale * (a - b), d * d};
  }
};

/// Returns the global column of an element if it equals the row's maximum; otherwise `none`.
template <RealScalar T, class Index>
struct ColumnOfMaximum
{
  const T* max;
  std::size_t j0;
  Index none;

  CUBIST_HOST_DEVICE Index operator()(std::size_t i, std::size_t j, T x) const
  {
    return x == max[i] && !is_nan(x) ? static_cast<Index>(j0 + j) : none;
  }
};

struct IsLabel
{
  const int* label;

  template <class Index>
  CUBIST_HOST_DEVICE double operator()(std::size_t i, std::size_t, Index c) const
  {
    return c == label[i] ? 1.0 : 0.0;
  }
};

/// Returns the mean of -log softmax(Y)[label] over the `count` rows whose label is not negative.
/// Writes its gradient to dY, unless dY is null; rows without a label get 0.
/// @param compared numbers that must be the same on every rank: the labels, or what they were
/// computed from
template <RealScalar T, class L, class M>
LossValue cross_entropy(const DistMatrix<T, L, M>& y, std::span<const int> labels,
                        std::size_t count, std::span<const int> compared, DistMatrix<T, L, M>* dy)
{
  const auto& engine = y.mesh().engine();
  const Span span{engine, {"loss"}};
  const MatrixView<const T> logits = y.valid();
  RowReduction<int, L, M> classes{y.mesh(), logits.rows(), 0};
  const int* label = classes.upload(labels.subspan(y.block().rows.offset, logits.rows()));
  const std::size_t j0 = y.block().cols.offset;

  using A = Accumulator<T>;
  const A mean = A{1} / static_cast<A>(std::max<std::size_t>(count, 1));
  LossSums<typename M::Engine, 3> loss{engine};
  if constexpr (PassesRows<typename M::Engine>)
    if (along_axes(y.mesh(), typename L::ColAxes{}).size() == 1 &&
        engine.passes_rows(logits.shape()))
    {
      RowReduction<double, L, M> losses{y.mesh(), logits.rows(), 0.0};
      engine.for_each_row(logits.shape(),
                          CrossEntropyOfRow<A, T>{logits, dy ? dy->valid() : MatrixView<T>{}, label,
                                                  mean, losses.data()});
      loss.fold(0, Itself{}, losses.view());
      return mean_over_labels<L>(y.mesh(), std::move(loss), compared, count);
    }
  RowReduction<A, L, M> maxima{y.mesh(), logits.rows(), -std::numeric_limits<A>::infinity()};
  const A* max = maxima.combine(ReduceOp::max, Larger{}, Itself{}, logits);
  RowReduction<A, L, M> sums{y.mesh(), logits.rows(), A{}};
  const A* sum = sums.combine(ReduceOp::sum, Sum{}, ShiftedPower<A>{max, A{1}}, logits);

  // The rank that holds the column of a row's label adds the row's loss. This must come before dY
  // is written, because dY may be Y.
  loss.fold(0, CrossEntropy<A, T>{logits, j0, max, sum}, classes.view());
  if (dy)
  {
    // The labels' logits are also read before dY is written. A loop over a row that does not single
    // them out is vectorised.
    RowReduction<A, L, M> at_label{y.mesh(), logits.rows(), A{}};
    at_label.map(LabelSlope<A, T>{logits, j0, max, sum, mean}, classes.view());
    engine.map_rows(dy->valid(), LogitSlopes<A>{label, max, sum, mean}, logits);
    at_label.map(StoreAtLabel<A, T>{dy->valid(), j0, label}, at_label.view());
  }
  return mean_over_labels<L>(y.mesh(), std::move(loss), compared, count);
}

}  // namespace detail

/// Returns the mean of -log softmax(Y)[label] over the rows whose label is not -100, the same on
/// every rank. Writes its gradient to dY, which may be Y; rows that are ignored get 0. If all rows
/// are ignored, the mean is a NaN, as in PyTorch, and dY is 0. Every rank of the mesh calls this.
/// @throws ShapeError unless there is one label per row, ArgumentError for a label that is neither
/// a class nor -100, and on every rank for labels that differ between ranks; on a device, the
/// latter when the value is read
template <RealScalar T, class L, class M>
LossValue softmax_cross_entropy(const DistMatrix<T, L, M>& y, std::span<const int> labels,
                                DistMatrix<T, L, M>& dy)
{
  detail::require_not_partial<L>();
  detail::check_labels(labels, y.shape());
  detail::check_target(y, dy, "gradient");
  return detail::cross_entropy(y, labels, detail::count_labels(labels), labels, &dy);
}

/// Returns the mean of (Y - target)^2 over all elements, the same on every rank. Writes its
/// gradient to dY, which may be Y. Every rank of the mesh calls this.
/// @throws ShapeError unless all three agree in shape and mesh
template <RealScalar T, class L, class LTarget, class M>
LossValue mean_squared_error(const DistMatrix<T, L, M>& y, const DistMatrix<T, LTarget, M>& target,
                             DistMatrix<T, L, M>& dy)
{
  detail::require_not_partial<L>();
  detail::require_layout<LTarget, L>();
  detail::check_target(y, target, "target");
  detail::check_target(y, dy, "gradient");
  const auto& engine = y.mesh().engine();
  const std::size_t count = std::max<std::size_t>(y.shape().size(), 1);
  detail::LossSums<typename M::Engine, 1> sum{engine};
  using A = Accumulator<T>;
  const detail::SquaredErrorAndSlope<A> both{A{2} / static_cast<A>(count)};
  sum.map_fold(0, dy.valid(), both, y.valid(), target.valid());
  sum.all_reduce(detail::along_axes(y.mesh(), typename L::CutAxes{}));
  return sum.value([n = static_cast<double>(count)](const auto& all) { return all[0] / n; });
}

/// Returns the fraction of rows whose largest column (the first if several are equal) is their
/// label, the same on every rank. Rows whose label is -100 do not count. A row with a NaN has no
/// largest column, and the fraction of no rows is a NaN. Every rank of the mesh calls this.
/// @throws ShapeError unless there is one label per row, ArgumentError for a label that is neither
/// a class nor -100, and on every rank for labels that differ between ranks
template <RealScalar T, class L, class M>
double accuracy(const DistMatrix<T, L, M>& y, std::span<const int> labels)
{
  detail::require_not_partial<L>();
  using Index = std::int64_t;
  detail::check_labels(labels, y.shape());
  const MatrixView<const T> logits = y.valid();
  detail::RowReduction<int, L, M> wanted{y.mesh(), logits.rows(), 0};
  const int* label = wanted.upload(labels.subspan(y.block().rows.offset, logits.rows()));

  using A = Accumulator<T>;
  detail::RowReduction<A, L, M> maxima{y.mesh(), logits.rows(),
                                       -std::numeric_limits<A>::infinity()};
  const A* max = maxima.combine(ReduceOp::max, detail::Larger{}, detail::Itself{}, logits);
  constexpr auto none = std::numeric_limits<Index>::max();
  detail::RowReduction<Index, L, M> classes{y.mesh(), logits.rows(), none};
  classes.combine(ReduceOp::min, detail::Smaller{},
                  detail::ColumnOfMaximum<A, Index>{max, y.block().cols.offset, none}, logits);
  detail::LossSums<typename M::Engine, 3> hits{y.mesh().engine()};
  hits.fold(0, detail::IsLabel{label}, classes.view());
  using Column = Layout<typename L::RowAxes, Cols<>>;
  return detail::mean_over_labels<Column>(y.mesh(), std::move(hits), labels,
                                          detail::count_labels(labels));
}

/// Multiplies this rank's block of dY by a factor, such as a loss scale (training/loss_scale.hpp).
/// dY is a DistMatrix, or the gradient of a network's output.
template <class Gradient>
void scale_gradient(Gradient& dy, double factor)
{
  if (factor == 1) return;
  const auto block = dy.view().valid();
  using A = Accumulator<std::remove_cvref_t<decltype(*block.data())>>;
  const detail::Scaled<A> scale{static_cast<A>(factor)};
  dy.mesh().engine().map_indexed(block, scale, block);
}

}  // namespace cubist::CUBIST_ABI
