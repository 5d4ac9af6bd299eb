// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The functions that norms of rows apply to elements; nn/layers/row_norm.hpp has the formulas.

#include <cmath>
#include <cstddef>
#include <limits>

#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
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
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, const T& x) const
  {
    return static_cast<double>(x);
  }
};

/// The square of an element's difference from its row's mean, rounded to the element's type.
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

/// The mean of a row from its sum.
struct MeanOf
{
  double columns;

  CUBIST_HOST_DEVICE double operator()(const double& sum) const { return sum / columns; }
};

/// rstd from a row's sum of squares of T and its mean. It is a NaN if squares exceed the range of
/// double, because rstd would be 0 and turn the row into finite numbers. The differences are from
/// the mean as rounded to T, so the sum of squares contains the square of its rounding error, which
/// is subtracted.
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

/// A row's numbers, as arguments of its elements' functions.
template <RealScalar T>
struct NormRow
{
  T rstd;
  T mean;
  T mean_g;
  T mean_g_xhat;

  [[gnu::always_inline]] CUBIST_HOST_DEVICE T xhat(T x) const { return (x - mean) * rstd; }
};

/// xhat w + b
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

/// dy xhat
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

/// a w, of dY or of dY xhat
struct Weighted
{
  template <class T>
  CUBIST_HOST_DEVICE double operator()(std::size_t, std::size_t, const T& a, const T& w) const
  {
    return static_cast<double>(a) * static_cast<double>(w);
  }
};

/// rstd (dy w - mean(G) - xhat mean(G xhat))
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

}  // namespace cubist::CUBIST_ABI::detail
