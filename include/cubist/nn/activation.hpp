// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Activation functions: small callables with a derivative, both as functions of the input, for an
// engine to map.
//
// Source of GELU: Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv 1606.08415.

#include <cmath>
#include <numbers>
#include <variant>

#include "cubist/core/scalar.hpp"

namespace cubist
{

/// x
struct Identity
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return x;
  }
  template <RealScalar T>
  T derivative(T) const
  {
    return T{1};
  }
};

/// max(0, x); its derivative at 0 is 0.
struct Relu
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return x > T{} ? x : T{};
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    return x > T{} ? T{1} : T{};
  }
};

/// 1 / (1 + e^-x)
struct Sigmoid
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return T{1} / (T{1} + std::exp(-x));
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    const T s = (*this)(x);
    return s * (T{1} - s);
  }
};

struct Tanh
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return std::tanh(x);
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    const T t = std::tanh(x);
    return T{1} - t * t;
  }
};

/// x / (1 + e^-x), also called swish
struct Silu
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return x * Sigmoid{}(x);
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    const T s = Sigmoid{}(x);
    return s * (T{1} + x * (T{1} - s));
  }
};

/// x Phi(x), Phi being the normal distribution function
struct Gelu
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return x * phi(x);
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    const T density =
        std::exp(-x * x / T{2}) * std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
    return phi(x) + x * density;
  }

 private:
  template <RealScalar T>
  static T phi(T x)
  {
    return std::erfc(-x / std::numbers::sqrt2_v<T>) / T{2};
  }
};

/// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, GELU's usual approximation
struct GeluTanh
{
  template <RealScalar T>
  T operator()(T x) const
  {
    return x * (T{1} + std::tanh(inner(x))) / T{2};
  }
  template <RealScalar T>
  T derivative(T x) const
  {
    const T t = std::tanh(inner(x));
    const T bend = T{1} - t * t;
    const T slope = scale<T> * (T{1} + 3 * cubic<T> * x * x);
    // Where the slope overflows, bend is 0.
    return (T{1} + t) / T{2} + (bend > T{} ? x * bend * slope / T{2} : T{});
  }

 private:
  template <RealScalar T>
  static constexpr T scale = std::numbers::sqrt2_v<T>* std::numbers::inv_sqrtpi_v<T>;
  template <RealScalar T>
  static constexpr T cubic = static_cast<T>(0.044715);

  template <RealScalar T>
  static T inner(T x)
  {
    return scale<T> * (x + cubic<T> * x * x * x);
  }
};

inline constexpr Identity identity{};
inline constexpr Relu relu{};
inline constexpr Sigmoid sigmoid{};
inline constexpr Tanh tanh{};
inline constexpr Silu silu{};
inline constexpr Gelu gelu{};
inline constexpr GeluTanh gelu_tanh{};

/// One of them, chosen at run time.
using Activation = std::variant<Identity, Relu, Sigmoid, Tanh, Silu, Gelu, GeluTanh>;

}  // namespace cubist
