// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Tests for NaN and infinity, and comparisons, that are right whatever flags a program is compiled
// with.
//
// With -ffinite-math-only, which is part of -ffast-math and -Ofast, a compiler assumes that
// std::isnan(x) and x != x are false and std::isfinite(x) is true. It may also replace x < y by !(x
// >= y), which is true for a NaN. It assumes nothing about the bits of a number, so the functions
// here test the bits. They have neither branches nor calls, so loops over them vectorise, and they
// run on a device.

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The bits of a real number as a signed integer of the same size.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr auto signed_bits(const T& x)
{
  if constexpr (ShortReal<T>)
    return static_cast<std::int16_t>(x.bits());
  else
    return std::bit_cast<std::conditional_t<std::same_as<T, double>, std::int64_t, std::int32_t>>(
        x);
}

/// The bits of |x|. They grow with |x|; only NaNs have larger bits than infinity.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr auto magnitude_bits(const T& x)
{
  const auto bits = signed_bits(x);
  using Bits = std::remove_const_t<decltype(bits)>;
  return static_cast<Bits>(bits & std::numeric_limits<Bits>::max());
}

/// The bits of infinity: an exponent of ones, and a fraction of zeros.
template <RealScalar T>
inline constexpr auto infinity_bits = [] {
  using Bits = decltype(magnitude_bits(T{}));
  constexpr int fraction_bits = std::numeric_limits<T>::digits - 1;
  return static_cast<Bits>(std::numeric_limits<Bits>::max() >> fraction_bits << fraction_bits);
}();

}  // namespace detail

/// Whether x is a NaN.
template <RealScalar T>
[[nodiscard, gnu::always_inline]] CUBIST_HOST_DEVICE constexpr bool is_nan(const T& x)
{
  return detail::magnitude_bits(x) > detail::infinity_bits<T>;
}
/// Whether a component of z is a NaN.
template <ComplexNumber T>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr bool is_nan(const T& z)
{
  return is_nan(z.real()) || is_nan(z.imag());
}

/// Whether x is neither a NaN nor an infinity.
template <RealScalar T>
[[nodiscard, gnu::always_inline]] CUBIST_HOST_DEVICE constexpr bool is_finite(const T& x)
{
  return detail::magnitude_bits(x) < detail::infinity_bits<T>;
}
/// Whether both components of z are finite.
template <ComplexNumber T>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr bool is_finite(const T& z)
{
  return is_finite(z.real()) && is_finite(z.imag());
}

/// Whether x is an infinity.
template <RealScalar T>
[[nodiscard, gnu::always_inline]] CUBIST_HOST_DEVICE constexpr bool is_infinite(const T& x)
{
  return detail::magnitude_bits(x) == detail::infinity_bits<T>;
}

namespace detail
{

/// Returns condition ? a : b. It is computed with masks, because compilers may turn a conditional
/// expression into a branch, and then do not vectorise the loop.
template <std::floating_point T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T pick(bool condition, T a, T b)
{
#ifdef __CUDA_ARCH__
  return condition ? a : b;  // a device has an instruction for it
#else
  using Bits = std::make_unsigned_t<decltype(signed_bits(a))>;
  const Bits mask = Bits{0} - static_cast<Bits>(condition);
  return std::bit_cast<T>((std::bit_cast<Bits>(a) & mask) | (std::bit_cast<Bits>(b) & ~mask));
#endif
}

#if defined __FINITE_MATH_ONLY__ && __FINITE_MATH_ONLY__
/// The bits of x as an integer that grows with x.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr auto sorting_key(const T& x)
{
  const auto sign = signed_bits(x) >> (8 * sizeof(T) - 1);
  return (magnitude_bits(x) ^ sign) - sign;
}
/// Whether a < b; false if either is a NaN.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr bool is_less(T a, T b)
{
  return (int{sorting_key(a) < sorting_key(b)} & int{!is_nan(a)} & int{!is_nan(b)}) != 0;
}
/// Returns the larger of two numbers, or a NaN if either is one.
template <std::floating_point T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T larger(T a, T b)
{
  return pick(is_nan(b), b, pick(is_less(a, b), b, a));
}
/// Returns the smaller of two numbers, or a NaN if either is one.
template <std::floating_point T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T smaller(T a, T b)
{
  return pick(is_nan(b), b, pick(is_less(b, a), b, a));
}
#else
/// Whether a < b; false if either is a NaN.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr bool is_less(T a, T b)
{
  return a < b;
}
/// Returns the larger of two numbers, or a NaN if either is one. Compilers have instructions for
/// these two selections, but would have none if both selected b.
template <std::floating_point T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T larger(T a, T b)
{
  const T most = a < b ? b : a;
  return b != b ? b + b : most;
}
template <std::floating_point T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T smaller(T a, T b)
{
  const T least = b < a ? b : a;
  return b != b ? b + b : least;
}
#endif
template <ShortReal T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T larger(T a, T b)
{
  return is_nan(b) || is_less(a, b) ? b : a;
}
template <ShortReal T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T smaller(T a, T b)
{
  return is_nan(b) || is_less(b, a) ? b : a;
}
template <std::integral T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T larger(T a, T b)
{
  return a < b ? b : a;
}
template <std::integral T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T smaller(T a, T b)
{
  return b < a ? b : a;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
