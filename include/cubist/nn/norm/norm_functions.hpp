// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions that norms of rows apply to elements. nn/norm/row_norm.hpp has the formulas.

#include <cmath>
#include <cstddef>
#include <limits>

#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct SquareOf
{
  template <class T>
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, const T& x) const
  {
    return static_cast<double>(x) * static_cast<double>(x);
  }
};

struct DoubleOf
{
  template <class T>
  CUBIST_HOST_DEVICE double operator()(const T& x) const
  {
    return static_cast<double>(x);
  }
  template <class T>
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, const T& x) const
  {
    return static_cast<double>(x);
  }
};

/// Squares an element's difference from its row's mean, which is rounded to the element's type.
struct CentredSquareOf
{
  const double* mean;

  template <class T>
  CUBIST_HOST_DEVICE double operator()(std::size_t i, std::size_t, const T& x) const
  {
    const T difference = x - static_cast<T>(mean[i]);
    return static_cast<double>(difference) * static_cast<double>(difference);
  }
};

/// Computes the mean of a row from its sum.
struct MeanOf
{
  double columns;

  CUBIST_HOST_DEVICE double operator()(const double& sum) const { return sum / columns; }
};

/// Computes rstd of a row of T from its sum of squares and its mean. The result is a NaN if squares
/// exceed the range of double, because rstd would be 0 and turn the row into finite numbers. The
/// differences are taken from the mean rounded to T, so the sum contains the square of the rounding
/// error, which is subtracted.
template <RealScalar T>
struct ReciprocalRootOf
{
  double columns;
  double epsilon;

  CUBIST_HOST_DEVICE double operator()(const double& squares, const double& mean) const
  {
    const double error = mean - static_cast<double>(static_cast<T>(mean));
    const double variance = squares / columns - error * error;
    const double sum = pick(is_less(variance, 0.0), 0.0, variance) + epsilon;
    return pick(is_finite(sum), 1 / std::sqrt(sum), std::numeric_limits<double>::quiet_NaN());
  }
};

/// The numbers of a row that functions of single elements read.
template <RealScalar T>
struct NormRow
{
  T rstd;
  T mean;
  T mean_g;
  T mean_g_xhat;

  [[gnu::always_inline]] CUBIST_HOST_DEVICE T xhat(T x) const { return (x - mean) * rstd; }
};

/// Computes xhat w + b.
template <RealScalar T>
struct Normalize
{
  const double* rstd;
  const double* mean;

  struct Row : NormRow<T>
  {
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x, T w, T b) const
    {
      return this->xhat(x) * w + b;
    }
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x, T w) const
    {
      return this->xhat(x) * w;
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    return {{static_cast<T>(rstd[i]), static_cast<T>(mean[i]), T{}, T{}}};
  }
};

/// Computes dy xhat.
template <RealScalar T>
struct TimesNormalized
{
  const double* rstd;
  const double* mean;

  struct Row : NormRow<T>
  {
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T dy, T x) const
    {
      return dy * this->xhat(x);
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    return {{static_cast<T>(rstd[i]), static_cast<T>(mean[i]), T{}, T{}}};
  }
};

/// Computes a w in double, a being an element of dY or of dY xhat.
struct Weighted
{
  template <class T>
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, const T& a, const T& w) const
  {
    return static_cast<double>(a) * static_cast<double>(w);
  }
};

/// Computes rstd (dy w - mean(G) - xhat mean(G xhat)).
template <RealScalar T>
struct NormSlope
{
  const double* rstd;
  const double* mean;
  const double* sum_g_xhat;
  const double* sum_g;
  double columns;

  struct Row : NormRow<T>
  {
    [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T dy, T x, T w) const
    {
      return this->rstd * (dy * w - this->mean_g - this->xhat(x) * this->mean_g_xhat);
    }
  };
  CUBIST_HOST_DEVICE Row operator()(std::size_t i) const
  {
    return {{static_cast<T>(rstd[i]), static_cast<T>(mean[i]), static_cast<T>(sum_g[i] / columns),
             static_cast<T>(sum_g_xhat[i] / columns)}};
  }
};

/// Squares an element's difference from its row's mean in double.
template <RealScalar T>
struct CentredSquare
{
  T mean;

  CUBIST_HOST_DEVICE double operator()(T x) const
  {
    const double difference = x - mean;
    return difference * difference;
  }
};

/// Computes the forward pass of a norm for one row, on engines that pass over rows (PassesRows).
/// @tparam T the type of elements; computations are in A
template <class T, RealScalar A, bool centred>
struct NormForward
{
  MatrixView<const T> x;
  MatrixView<const T> w;
  MatrixView<const T> b;
  MatrixView<T> y;
  double* rstd;
  double* mean;
  double columns;
  double epsilon;

  template <class Row>
  CUBIST_HOST_DEVICE void operator()(const Row& row) const
  {
    double mean_x = 0;
    if constexpr (centred) mean_x = row.sum(DoubleOf{}, x) / columns;
    const A rounded = static_cast<A>(mean_x);
    const double squares = row.sum(CentredSquare<A>{rounded}, x);
    const double scale = ReciprocalRootOf<A>{columns, epsilon}(squares, mean_x);
    row.set(rstd, scale);
    row.set(mean, mean_x);
    const typename Normalize<A>::Row normalize{{static_cast<A>(scale), rounded, A{}, A{}}};
    if constexpr (centred)
      row.map(y, normalize, x, w, b);
    else
      row.map(y, normalize, x, w);
  }
};

/// The sums over a row that the gradient of a norm's input needs.
struct SlopeSums
{
  double g;
  double g_xhat;

  CUBIST_HOST_DEVICE SlopeSums& operator+=(const SlopeSums& other)
  {
    g += other.g;
    g_xhat += other.g_xhat;
    return *this;
  }
};

/// Computes an element's terms of SlopeSums.
template <RealScalar T>
struct SlopeTerms
{
  NormRow<T> row;

  CUBIST_HOST_DEVICE SlopeSums operator()(T dy, T x, T w) const
  {
    const double weight = w;
    return {dy * weight, dy * row.xhat(x) * weight};
  }
};

/// Computes the gradient of a norm's input for one row, on engines that pass over rows
/// (PassesRows).
template <class T, RealScalar A, bool centred>
struct NormBackward
{
  MatrixView<const T> dy;
  MatrixView<const T> x;
  MatrixView<const T> w;
  MatrixView<T> dx;
  const double* rstd;
  const double* mean;
  double columns;

  template <class Row>
  CUBIST_HOST_DEVICE void operator()(const Row& row) const
  {
    const std::size_t i = row.index();
    NormRow<A> numbers{static_cast<A>(rstd[i]), static_cast<A>(mean[i]), A{}, A{}};
    const SlopeSums sums = row.sum(SlopeTerms<A>{numbers}, dy, x, w);
    if constexpr (centred) numbers.mean_g = static_cast<A>(sums.g / columns);
    numbers.mean_g_xhat = static_cast<A>(sums.g_xhat / columns);
    row.map(dx, typename NormSlope<A>::Row{numbers}, dy, x, w);
  }
};

}  // namespace cubist::CUBIST_ABI::detail
