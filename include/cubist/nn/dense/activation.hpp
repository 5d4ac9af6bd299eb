// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Activation functions. Each is a small callable with a derivative, and an engine maps both over
// the input. They use core/vector_math.hpp and have no branches, so that compilers vectorise the
// loops over them. nn/dense/activation_passes.hpp applies them. A program's own function is called
// through a pointer, element by element, and only on the host.
//
// Source of GELU: Hendrycks, Gimpel, "Gaussian Error Linear Units", arXiv 1606.08415.

#include <cmath>
#include <concepts>
#include <memory>
#include <numbers>
#include <utility>
#include <variant>

#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/vector_math.hpp"

namespace cubist::CUBIST_ABI
{

/// x
struct Identity final
{
  template <RealScalar T>
  CUBIST_HOST_DEVICE T operator()(T x) const
  {
    return x;
  }
  template <RealScalar T>
  CUBIST_HOST_DEVICE T derivative(T) const
  {
    return T{1};
  }
};

/// max(0, x). Its derivative at 0 is 0. Both are a NaN if x is one.
struct Relu final
{
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    return detail::pick(detail::is_less(x, T{}), T{}, x);
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    // If x is not positive, the value of the function is 0, or a NaN.
    return detail::pick(detail::is_less(T{}, x), T{1}, (*this)(x));
  }
};

/// 1 / (1 + e^-x)
struct Sigmoid final
{
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    const T e = detail::exp_of_negative(-std::abs(x));
    return detail::quotient(detail::pick(x < T{}, e, T{1}), T{1} + e);
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    const T e = detail::exp_of_negative(-std::abs(x));
    const T inverse = detail::quotient(T{1}, T{1} + e);
    return e * inverse * inverse;
  }
};

/// tanh x.
struct Tanh final
{
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    constexpr T far{20};  // from here on tanh is 1
    const T size = std::abs(x);
    const T e =
        detail::expm1_of_negative(T{-2} * detail::pick(detail::is_less(far, size), far, size));
    return std::copysign(detail::quotient(e, T{2} + e), x);
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    const T e = detail::exp_of_negative(T{-2} * std::abs(x));
    const T inverse = detail::quotient(T{1}, T{1} + e);
    return T{4} * e * inverse * inverse;
  }
};

/// x / (1 + e^-x), also called swish
struct Silu final
{
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    CUBIST_NO_REASSOCIATION
    // The result is 0 for these x; the formula would give a NaN for an infinite x.
    constexpr T far = detail::VectorMath<T>::least_exponent * T{2};
    return detail::pick(detail::is_less(x, far), far, x) * detail::as_written(Sigmoid{}(x));
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    const T size = std::abs(x);
    constexpr T far = detail::VectorMath<T>::least_exponent * T{-2};
    const T e = detail::exp_of_negative(-size);
    const T inverse = detail::quotient(T{1}, T{1} + e);
    // s (1 + x (1 - s)) with s = Sigmoid{}(x), where 1 - s needs no subtraction.
    const T s = detail::pick(x < T{}, e, T{1}) * inverse;
    const T bend = detail::pick(x < T{}, T{-1}, e) * inverse;
    return s * (detail::pick(detail::is_less(far, size), far, size) * bend + T{1});
  }
};

/// x Phi(x), where Phi is the normal distribution function
struct Gelu final
{
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    // max(0, x) - |x| Q(|x|)
    const auto tail = detail::normal_tail(x);
    return detail::pick(x < T{}, T{}, x) - tail.a * tail.ratio * tail.gaussian;
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    // Phi(x) + x e^(-x^2/2) / sqrt(2 pi); the second term is odd.
    constexpr T density = std::numbers::inv_sqrtpi_v<T> / std::numbers::sqrt2_v<T>;
    const auto tail = detail::normal_tail(x);
    const T bend = tail.ratio - density * tail.a;
    return detail::pick(x < T{}, T{}, T{1}) - detail::pick(x < T{}, -bend, bend) * tail.gaussian;
  }
};

/// x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2, GELU's usual approximation
struct GeluTanh final
{
  // (1 + tanh(u / 2)) / 2 = 1 / (1 + e^-u)
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T operator()(T x) const
  {
    CUBIST_NO_REASSOCIATION
    const T near = detail::pick(detail::is_less(x, -far<T>), -far<T>, x);
    return near * detail::as_written(Sigmoid{}(near * (cubic<T> * (near * near) + scale<T>)));
  }
  template <RealScalar T>
  [[gnu::always_inline]] CUBIST_HOST_DEVICE T derivative(T x) const
  {
    const T size = std::abs(x);
    const T near = detail::pick(detail::is_less(far<T>, size), far<T>, size);
    const T square = near * near;
    const T e = detail::exp_of_negative(-near * (cubic<T> * square + scale<T>));
    const T inverse = detail::quotient(T{1}, T{1} + e);
    const T bend = near * (T{3} * cubic<T> * square + scale<T>)*e;
    return inverse *
           (detail::pick(x < T{}, -bend, bend) * inverse + detail::pick(x < T{}, e, T{1}));
  }

 private:
  template <RealScalar T>
  static constexpr T scale = T{2} * std::numbers::sqrt2_v<T>* std::numbers::inv_sqrtpi_v<T>;
  template <RealScalar T>
  static constexpr T cubic = static_cast<T>(0.044715) * scale<T>;
  /// Below -far the function is 0; beyond ±far the derivative is 0 or 1.
  template <RealScalar T>
  static constexpr T far{24};
};

/// x
inline constexpr Identity identity{};
/// max(x, 0)
inline constexpr Relu relu{};
/// 1 / (1 + exp(-x))
inline constexpr Sigmoid sigmoid{};
/// tanh x
inline constexpr Tanh tanh{};
/// x sigmoid(x)
inline constexpr Silu silu{};
/// x Phi(x), where Phi is the normal distribution function
inline constexpr Gelu gelu{};
/// GELU approximated by tanh, as in GPT-2
inline constexpr GeluTanh gelu_tanh{};

/// A function of a real number, with its derivative, for float and for double. 16-bit elements are
/// passed as floats.
template <class F>
concept ActivationFunction = std::copy_constructible<F> && requires(const F& f, float x, double y)
{
  requires std::same_as<decltype(f(x)), float> && std::same_as<decltype(f.derivative(x)), float>;
  requires std::same_as<decltype(f(y)), double> && std::same_as<decltype(f.derivative(y)), double>;
};

namespace detail
{

struct AnyActivation
{
  virtual ~AnyActivation() = default;
  [[nodiscard]] virtual float value(float x) const = 0;
  [[nodiscard]] virtual double value(double x) const = 0;
  [[nodiscard]] virtual float slope(float x) const = 0;
  [[nodiscard]] virtual double slope(double x) const = 0;
};

template <class F>
struct ActivationOf final : AnyActivation
{
  explicit ActivationOf(const F& function)
      : f{function}
  {
  }
  float value(float x) const override { return f(x); }
  double value(double x) const override { return f(x); }
  float slope(float x) const override { return f.derivative(x); }
  double slope(double x) const override { return f.derivative(x); }
  F f;
};

/// The program's own function, as an engine maps it. It owns nothing, because each row gets a copy.
class CalledActivation
{
 public:
  explicit CalledActivation(const AnyActivation& f)
      : f_{&f}
  {
  }
  template <std::floating_point T>
  T operator()(T x) const
  {
    return f_->value(x);
  }
  template <std::floating_point T>
  T derivative(T x) const
  {
    return f_->slope(x);
  }

 private:
  const AnyActivation* f_;
};

// clang-format off
/// The function that engines map. All alternatives are trivially copyable, which compiles fast.
using ChosenActivation = std::variant<
    Identity,
    Relu,
    Sigmoid,
    Tanh,
    Silu,
    Gelu,
    GeluTanh,
    CalledActivation>;
// clang-format on

}  // namespace detail

/// An activation function chosen at run time: one of cubist's, or, for engines in host memory, the
/// program's own. Copies share the program's function, and ranks that are threads may call it at
/// the same time.
class Activation : public detail::ChosenActivation
{
 public:
  /// Converts implicitly, so that an option takes the function itself.
  template <class F>
  requires(!std::same_as<F, Activation>) Activation(const F& f)
  {
    if constexpr (std::constructible_from<detail::ChosenActivation, std::in_place_type_t<F>, F>)
      detail::ChosenActivation::operator=(f);
    else
    {
      static_assert(
          ActivationFunction<F>,
          "this is not an activation function, so a layer can compute neither its value nor its "
          "gradient; pass one of cubist's, such as cubist::relu, or an object with the const "
          "members operator()(x) and derivative(x), which return a float for a float and a double "
          "for a double: docs/activations.md");
      if constexpr (ActivationFunction<F>) own(std::make_shared<const detail::ActivationOf<F>>(f));
    }
  }
  // It cannot be moved, because that would leave an object without a function.
  Activation(const Activation&) = default;
  Activation& operator=(const Activation&) = default;

 private:
  void own(std::shared_ptr<const detail::AnyActivation> f)
  {
    owned_ = std::move(f);
    detail::ChosenActivation::operator=(detail::CalledActivation{*owned_});
  }

  std::shared_ptr<const detail::AnyActivation> owned_;
};

}  // namespace cubist::CUBIST_ABI
