// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A complex number for functions that run on a device, where std::complex has no arithmetic: nvcc
// 13.0 compiles the operators of libstdc++'s std::complex so that they return their left operand. A
// device's engine passes an element of std::complex<T> to a function as Complex<T>.
//
// std::complex converts to Complex, so a function may combine elements with a std::complex that it
// holds. The other conversion is explicit, so a function of std::complex does not compile for a
// device.
//
// Source of the quotient: Smith, "Algorithm 116: Complex division", CACM 5(8), 1962.

#include <cmath>
#include <complex>
#include <concepts>

#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

template <std::floating_point T>
class Complex
{
 public:
  /// Makes the number re + im i.
  CUBIST_HOST_DEVICE constexpr Complex(T re = T{}, T im = T{})
      : re_{re},
        im_{im}
  {
  }
  /// Converts a number of the standard library.
  CUBIST_HOST_DEVICE constexpr Complex(const std::complex<T>& z)
      : Complex{z.real(), z.imag()}
  {
  }
  CUBIST_HOST_DEVICE constexpr explicit operator std::complex<T>() const { return {re_, im_}; }

  /// The real part.
  [[nodiscard]] CUBIST_HOST_DEVICE constexpr T real() const { return re_; }
  /// The imaginary part.
  [[nodiscard]] CUBIST_HOST_DEVICE constexpr T imag() const { return im_; }

  friend CUBIST_HOST_DEVICE constexpr bool operator==(Complex a, Complex b)
  {
    return a.re_ == b.re_ && a.im_ == b.im_;
  }
  friend CUBIST_HOST_DEVICE constexpr Complex operator-(Complex z) { return {-z.re_, -z.im_}; }
  friend CUBIST_HOST_DEVICE constexpr Complex operator+(Complex a, Complex b)
  {
    return {a.re_ + b.re_, a.im_ + b.im_};
  }
  friend CUBIST_HOST_DEVICE constexpr Complex operator-(Complex a, Complex b)
  {
    return {a.re_ - b.re_, a.im_ - b.im_};
  }
  friend CUBIST_HOST_DEVICE constexpr Complex operator*(Complex a, Complex b)
  {
    return {a.re_ * b.re_ - a.im_ * b.im_, a.re_ * b.im_ + a.im_ * b.re_};
  }
  friend CUBIST_HOST_DEVICE constexpr Complex operator*(T s, Complex z)
  {
    return {s * z.re_, s * z.im_};
  }
  friend CUBIST_HOST_DEVICE constexpr Complex operator*(Complex z, T s) { return s * z; }
  friend CUBIST_HOST_DEVICE constexpr Complex operator/(Complex z, T s)
  {
    return {z.re_ / s, z.im_ / s};
  }
  /// Divides a by b. Apart from its last operations, it overflows or underflows only if the
  /// quotient does.
  friend CUBIST_HOST_DEVICE constexpr Complex operator/(Complex a, Complex b)
  {
    if (magnitude(b.re_) < magnitude(b.im_))  // a / b = i a / (i b)
      return Complex{-a.im_, a.re_} / Complex{-b.im_, b.re_};
    const T ratio = b.im_ / b.re_;
    return Complex{a.re_ + a.im_ * ratio, a.im_ - a.re_ * ratio} / (b.re_ + b.im_ * ratio);
  }

  CUBIST_HOST_DEVICE constexpr Complex& operator+=(Complex z) { return *this = *this + z; }
  CUBIST_HOST_DEVICE constexpr Complex& operator-=(Complex z) { return *this = *this - z; }
  CUBIST_HOST_DEVICE constexpr Complex& operator*=(Complex z) { return *this = *this * z; }
  CUBIST_HOST_DEVICE constexpr Complex& operator/=(Complex z) { return *this = *this / z; }

  /// The complex conjugate.
  friend CUBIST_HOST_DEVICE constexpr Complex conj(Complex z) { return {z.re_, -z.im_}; }
  /// The square of the absolute value.
  friend CUBIST_HOST_DEVICE constexpr T norm(Complex z) { return z.re_ * z.re_ + z.im_ * z.im_; }
  /// The absolute value.
  friend CUBIST_HOST_DEVICE T abs(Complex z) { return std::hypot(z.re_, z.im_); }

 private:
  CUBIST_HOST_DEVICE static constexpr T magnitude(T x) { return x < T{} ? -x : x; }

  T re_;
  T im_;
};

/// A Complex or a std::complex.
template <class T>
concept ComplexNumber = requires(const T& z)
{
  z.real();
  z.imag();
};

namespace detail
{

template <class T>
struct DeviceValueOf
{
  using type = Accumulator<T>;
};
template <class T>
struct DeviceValueOf<std::complex<T>>
{
  using type = Complex<T>;
};

/// The type in which elements of type T are computed and summed by code that also runs on a device.
template <class T>
using DeviceValue = typename DeviceValueOf<T>::type;

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
