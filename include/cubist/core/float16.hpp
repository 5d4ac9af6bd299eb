// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// 16-bit real numbers, for storage. They convert to float without loss. Arithmetic is done in
// float, and a result is rounded to nearest, ties to even, when it is stored.
//
//              sign, exponent, fraction   epsilon   largest
//   bfloat16   1     8         7          2^-7      3.4e38, as float
//   half       1     5         10         2^-10     65504
//
// A number beyond the largest becomes an infinity, and a NaN stays a NaN. On the host the
// conversions are integer arithmetic on bits without branches, so compilers vectorise loops over
// them; a device has instructions for them.
//
// Source: IEEE 754-2019, 3.6 (half is its binary16); Intel, "BFLOAT16 - Hardware Numerics
// Definition", 2018.

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns a if the condition holds, else b. With a branch, compilers do not vectorise the loop
/// around it.
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr std::uint32_t
select(bool condition, std::uint32_t a, std::uint32_t b)
{
  const std::uint32_t mask = 0U - static_cast<std::uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

/// The upper half of a float.
struct Bfloat16Format
{
  static constexpr int digits = 8;
  static constexpr int max_exponent = 128;

  CUBIST_HOST_DEVICE static constexpr std::uint16_t round(std::uint32_t bits)
  {
    // The fraction of a NaN must not vanish.
    const bool is_nan = static_cast<std::int32_t>(bits & 0x7FFF'FFFFU) > 0x7F80'0000;
    return static_cast<std::uint16_t>(
        select(is_nan, bits >> 16 | 0x40U, (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16));
  }
  CUBIST_HOST_DEVICE static constexpr std::uint32_t widen(std::uint32_t bits) { return bits << 16; }

#ifdef __CUDA_ARCH__
  // The device's own instruction turns every NaN into the same one.
  __device__ static std::uint16_t round_on_device(float x)
  {
    std::uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
  __device__ static float widen_on_device(std::uint32_t bits)
  {
    return __uint_as_float(bits << 16);
  }
#endif
};

/// IEEE 754's binary16.
struct HalfFormat
{
  static constexpr int digits = 11;
  static constexpr int max_exponent = 16;

  CUBIST_HOST_DEVICE static constexpr std::uint16_t round(std::uint32_t bits)
  {
    const std::uint32_t sign = bits >> 16 & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFF'FFFFU;
    return static_cast<std::uint16_t>(sign | round_magnitude(magnitude));
  }
  CUBIST_HOST_DEVICE static constexpr std::uint32_t widen(std::uint32_t bits)
  {
    const std::uint32_t sign = (bits & 0x8000U) << 16;
    const std::uint32_t exponent = bits & 0x7C00U;
    constexpr std::uint32_t bias = 112U << 23;  // the difference between the formats' biases
    // An exponent of 31 stands for infinity and NaN, and becomes 255.
    const std::uint32_t normal =
        ((bits & 0x7FFFU) << 13) + bias + select(exponent == 0x7C00U, bias, 0);
    const auto fraction = static_cast<std::int32_t>(bits & 0x3FFU);
    const float subnormal = static_cast<float>(fraction) * 0x1p-24F;
    return sign | select(exponent == 0, std::bit_cast<std::uint32_t>(subnormal), normal);
  }

#ifdef __CUDA_ARCH__
  __device__ static std::uint16_t round_on_device(float x)
  {
    std::uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
  }
  __device__ static float widen_on_device(std::uint16_t bits)
  {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
#endif

 private:
  CUBIST_HOST_DEVICE static constexpr std::uint32_t round_magnitude(std::uint32_t size)
  {
    const auto ordered = static_cast<std::int32_t>(size);
    const std::uint32_t biased = size - 0x3800'0000U;
    const std::uint32_t normal = (biased + 0xFFFU + (biased >> 13 & 1U)) >> 13;
    // Subnormal numbers are 2^-24 apart, as floats between 1/2 and 1 are.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5F) - 0x3F00'0000U;
    const std::uint32_t finite = select(ordered < 0x3880'0000, subnormal, normal);
    const std::uint32_t nan = 0x7E00U | (size >> 13 & 0x3FFU);
    return select(ordered > 0x7F80'0000, nan,
                  select(ordered >= 0x4780'0000, 0x7C00U, finite));  // 2^16
  }
};

/// Returns x as a float, rounded to odd: rounding that float again gives x rounded once.
[[nodiscard]] CUBIST_HOST_DEVICE constexpr float round_to_odd(double x)
{
  const auto near = static_cast<float>(x);
  const auto bits = std::bit_cast<std::uint32_t>(near);
  // The bits are compared, because with -ffast-math a compiler may assume that the conversion is
  // exact and that there are no NaNs. Without the sign, bits are ordered like the numbers.
  constexpr std::uint64_t magnitude = ~std::uint64_t{} >> 1;
  const std::uint64_t size = std::bit_cast<std::uint64_t>(x) & magnitude;
  const std::uint64_t near_size =
      std::bit_cast<std::uint64_t>(static_cast<double>(near)) & magnitude;
  // NaN and infinity have no error.
  if (size >= 0x7FF0'0000'0000'0000U || size == near_size || (bits & 1U) != 0) return near;
  return std::bit_cast<float>(near_size < size ? bits + 1 : bits - 1);
}

}  // namespace detail

/// A 16-bit number whose bits are laid out as in `Format`.
template <class Format>
class Float16
{
 public:
  Float16() = default;
  /// Takes the nearest value; of two equally near ones, the one whose last bit is 0.
  CUBIST_HOST_DEVICE constexpr Float16(float x)
      : bits_{round(x)}
  {
  }
  /// Rounds to the nearest value, once.
  CUBIST_HOST_DEVICE constexpr explicit Float16(double x)
      : Float16{detail::round_to_odd(x)}
  {
  }
  /// Takes the nearest value.
  template <std::integral I>
  CUBIST_HOST_DEVICE constexpr explicit Float16(I x)
      : Float16{static_cast<double>(x)}
  {
  }

  CUBIST_HOST_DEVICE constexpr operator float() const
  {
#ifdef __CUDA_ARCH__
    if (!std::is_constant_evaluated()) return Format::widen_on_device(bits_);
#endif
    return std::bit_cast<float>(Format::widen(bits_));
  }

  /// Returns the value with these bits.
  [[nodiscard]] CUBIST_HOST_DEVICE static constexpr Float16 from_bits(std::uint16_t bits)
  {
    Float16 x{0.0F};
    x.bits_ = bits;
    return x;
  }
  /// The bits: sign, exponent, fraction.
  [[nodiscard]] CUBIST_HOST_DEVICE constexpr std::uint16_t bits() const { return bits_; }

  CUBIST_HOST_DEVICE constexpr Float16& operator+=(float x) { return *this = *this + x; }
  CUBIST_HOST_DEVICE constexpr Float16& operator-=(float x) { return *this = *this - x; }
  CUBIST_HOST_DEVICE constexpr Float16& operator*=(float x) { return *this = *this * x; }
  CUBIST_HOST_DEVICE constexpr Float16& operator/=(float x) { return *this = *this / x; }

 private:
  [[nodiscard]] CUBIST_HOST_DEVICE static constexpr std::uint16_t round(float x)
  {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if (!std::is_constant_evaluated()) return Format::round_on_device(x);
#endif
    return Format::round(std::bit_cast<std::uint32_t>(x));
  }

  std::uint16_t bits_;
};

/// 1 bit of sign, 8 of exponent, 7 of fraction.
using bfloat16 = Float16<detail::Bfloat16Format>;
/// CUDA's headers declare a ::half: with `using namespace cubist`, write cubist::half.
using half = Float16<detail::HalfFormat>;

}  // namespace cubist::CUBIST_ABI

/// @cond
template <class Format>
class std::numeric_limits<cubist::Float16<Format>> : public std::numeric_limits<float>
{
  using T = cubist::Float16<Format>;
  static constexpr int fraction_bits = Format::digits - 1;
  static constexpr unsigned infinite = (1U << 15) - (1U << fraction_bits);
  static constexpr T of(unsigned bits) { return T::from_bits(static_cast<std::uint16_t>(bits)); }

 public:
  static constexpr int digits = Format::digits;
  static constexpr int digits10 = (digits - 1) * 301 / 1000;
  static constexpr int max_digits10 = digits * 301 / 1000 + 2;
  static constexpr int max_exponent = Format::max_exponent;
  static constexpr int min_exponent = 3 - max_exponent;
  static constexpr int max_exponent10 = max_exponent * 301 / 1000;
  static constexpr int min_exponent10 = min_exponent * 301 / 1000;

  static constexpr T min() { return of(1U << fraction_bits); }
  static constexpr T max() { return of(infinite - 1); }
  static constexpr T lowest() { return of(0x8000U | (infinite - 1)); }
  static constexpr T epsilon()
  {
    return std::bit_cast<float>(static_cast<std::uint32_t>(127 - fraction_bits) << 23);
  }
  static constexpr T round_error() { return T{0.5F}; }
  static constexpr T infinity() { return of(infinite); }
  static constexpr T quiet_NaN() { return of(infinite | 1U << (fraction_bits - 1)); }
  static constexpr T signaling_NaN() { return of(infinite | 1U); }
  static constexpr T denorm_min() { return of(1); }
};
/// @endcond
