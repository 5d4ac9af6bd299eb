// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Exponentials, the tail of the normal distribution and square roots, for loops that compilers
// vectorise: arithmetic without branches, calls or tables, which also runs on a device. (std::sqrt
// sets errno, so compilers do not vectorise it.)
//
//   e^x, x <= 0     x = n ln 2 + r, |r| <= ln 2 / 2;  e^x = 2^n (1 + r + r^2 q(r))
//   Q(a), a >= 0    = e^(-a^2/2) G(a), G = t (1/2 + w g(w)), t = 1 / (1 + p a), w = t - 1
//   sqrt(x)         = x y, with y = 1 / sqrt(x) by Newton's method from a guess of y's bits
//
// q and g interpolate at Chebyshev nodes, over |r| <= ln 2 / 2 and over all a where Q is a normal
// number; the comments beside them give their errors relative to e^r and to G. A result below the
// smallest normal number is 0.
//
// The values are also right with -ffast-math, -Ofast and the flags that these imply. Expressions
// that a compiler could fold away by reassociation are marked (`as_written`), and core/finite.hpp
// has the comparisons.
//
// Source: Cody, Waite, "Software Manual for the Elementary Functions", 1980 (the reduction); Press
// et al., "Numerical Recipes", 6.2.2 (the form of G); Lomont, "Fast Inverse Square Root", 2003 (the
// guess).

#include <bit>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>

#include "cubist/core/finite.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"

// CUBIST_NO_REASSOCIATION begins a block in which clang reassociates nothing; CUBIST_PRECISE begins
// one in which it computes as without such flags. Other compilers have no such pragmas that survive
// inlining and vectorisation: see as_written() and quotient().
#if defined __clang__ && !defined __CUDACC__
#define CUBIST_NO_REASSOCIATION _Pragma("clang fp reassociate(off)")
#define CUBIST_PRECISE _Pragma("float_control(precise, on)")
#else
#define CUBIST_NO_REASSOCIATION
#define CUBIST_PRECISE
#endif
#if defined __ASSOCIATIVE_MATH__ && !defined __clang__
#define CUBIST_HIDES_VALUES
#elif defined __FAST_MATH__ && (!defined __clang__ || defined __CUDACC__)
#error                                                                                             \
    "cubist: got -ffast-math or a flag that includes it, with which this compiler would compute exponentials wrongly; compile this file with -fno-fast-math (nvcc: -Xcompiler -fno-fast-math), or by g++ 12, clang++ 14 or newer"
#endif

namespace cubist::CUBIST_ABI::detail
{

/// Evaluates c + c' x + c'' x^2 + … at x.
template <class T, class... C>
[[gnu::always_inline]] CUBIST_HOST_DEVICE constexpr T polynomial(T x, T c, C... more)
{
  if constexpr (sizeof...(C) == 0)
    return c;
  else
    return polynomial(x, more...) * x + c;
}

template <RealScalar T>
struct VectorMath;

template <>
struct VectorMath<float>
{
  using Bits = std::uint32_t;
  static constexpr int fraction_bits = 23;
  static constexpr Bits exponent_bias = 127;
  /// Adding this rounds to an integer, which the lowest bits of the sum hold.
  static constexpr float rounder = 0x1.8p23F;
  static constexpr float least_exponent = -87.33654F;  // e^x is a normal number from here up
  static constexpr float log2_e = 0x1.715476p0F;
  static constexpr float ln2_high = 0x1.62ep-1F;  // n times it is exact
  static constexpr float ln2_low = 0x1.0bfbe8p-15F;
  static constexpr Bits high_half = ~Bits{0xfff};  // masks a number so that its square is exact
  // error 1e-9
  [[gnu::always_inline]] CUBIST_HOST_DEVICE static constexpr float q(float r)
  {
    return polynomial(r, 0.5F, 0.166665769897F, 0.0416665546172F, 0.00836317905272F,
                      0.00139261835878F);
  }
  static constexpr float tail_end = 13.3F;  // Q is 0 from here up
  static constexpr float p = 0.29F;
  // error 1e-8
  [[gnu::always_inline]] CUBIST_HOST_DEVICE static constexpr float g(float w)
  {
    return polynomial(w, 0.875663030321F, 0.721324396821F, 0.161484463839F, -0.140568249334F,
                      -0.0435249327610F, 0.0339133527343F, -0.0335098494135F, -0.0583552918073F,
                      -0.0195068894947F);
  }
  static constexpr Bits root_guess = 0x5f375a86;
  static constexpr int root_steps = 2;
};

template <>
struct VectorMath<double>
{
  using Bits = std::uint64_t;
  static constexpr int fraction_bits = 52;
  static constexpr Bits exponent_bias = 1023;
  static constexpr double rounder = 0x1.8p52;
  static constexpr double least_exponent = -708.396418532264;
  static constexpr double log2_e = 0x1.71547652b82fep0;
  static constexpr double ln2_high = 0x1.62e42fefap-1;
  static constexpr double ln2_low = 0x1.cf79abc9e3b3ap-40;
  static constexpr Bits high_half = ~Bits{0x7ff'ffff};
  // error 2e-19
  [[gnu::always_inline]] CUBIST_HOST_DEVICE static constexpr double q(double r)
  {
    return polynomial(r, 0.5, 0.16666666666666671, 0.0416666666666666698, 0.00833333333332613513,
                      0.00138888888888837483, 0.000198412698748206253, 0.0000248015873255477412,
                      2.75572554002064244e-6, 2.75572736431102953e-7, 2.51052170047207452e-8,
                      2.09146869680868772e-9);
  }
  static constexpr double tail_end = 37.8;
  static constexpr double p = 0.24;
  // error 3e-17
  [[gnu::always_inline]] CUBIST_HOST_DEVICE static constexpr double g(double w)
  {
    return polynomial(
        w, 1.16225950167263615, 1.51575877443249595, 1.08550247302915011, 0.252410642741988536,
        -0.184722572174515101, -0.0896782035866759731, 0.0535877158854819456, 0.0207350360641826296,
        -0.0216130684604973721, -0.00152715635269724864, 0.00368021523145561466,
        -0.017382581173947463, -0.042764922671765587, -0.0916577321994961644, -0.167125408808229035,
        -0.232884815475761879, -0.249705345993361021, -0.202829552117355403, -0.118764468867322175,
        -0.0466311041493075609, -0.010916646711991873, -0.00114968875460798979);
  }
  static constexpr Bits root_guess = 0x5fe6'eb50'c7b5'37a9;
  static constexpr int root_steps = 3;
};

#ifdef CUBIST_HIDES_VALUES
/// Zero, though the compiler does not know that.
[[gnu::used]] inline std::uint32_t hidden_zero = 0;
#endif

/// Returns x such that the compiler does not reassociate it with what is computed from it. g++
/// forgets __builtin_assoc_barrier when it vectorises a loop.
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline T as_written(T x)
{
#if defined CUBIST_HIDES_VALUES && !defined __CUDA_ARCH__
  using Bits = typename VectorMath<T>::Bits;
  return std::bit_cast<T>(std::bit_cast<Bits>(x) ^ Bits{hidden_zero});
#else
  return x;
#endif
}

/// e^x = scale (1 + rest)
template <RealScalar T>
struct Power
{
  T scale;
  T rest;
};

/// Returns e^(x - tail), where the tail is the part of the exponent that rounding to x loses.
/// @pre x is from `least_exponent` to 0
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline Power<T> power(T x, T tail)
{
  CUBIST_NO_REASSOCIATION
  using M = VectorMath<T>;
  using Bits = typename M::Bits;
  const T rounded = as_written(x * M::log2_e + M::rounder);
  const T n = rounded - M::rounder;
  const T r = (as_written(x - n * M::ln2_high) - n * M::ln2_low) - tail;
  const Bits exponent = std::bit_cast<Bits>(rounded) + M::exponent_bias;
  return {std::bit_cast<T>(exponent << M::fraction_bits), (r * r) * M::q(r) + r};
}

#ifdef __CUDA_ARCH__
/// Returns e^(x - tail) by the device's instruction for 2^t, which is right to 2 units in the last
/// place. The rounding of t = x log2 e, times ln 2, is added to the exponent.
[[nodiscard]] __device__ inline float exp_on_device(float x, float tail)
{
  constexpr float log2_e = VectorMath<float>::log2_e;
  constexpr float log2_e_low = 0x1.4ae0cp-26F;
  // At 2^-127 and below, the instruction returns 0; the rest of an infinite t would be a NaN.
  const float near = x < -120.0F ? -120.0F : x;
  const float t = near * log2_e;
  const float rest = fmaf(near, log2_e_low, fmaf(near, log2_e, -t));
  float power = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(t));
  return fmaf(power, fmaf(rest, 0x1.62e43p-1F, -tail), power);
}
#endif

/// Returns a / b, and exactly a if b is 1. A device computes it to within 2 units in the last
/// place.
/// @pre b is from 1 to 2^100
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline T quotient(T a, T b)
{
  CUBIST_PRECISE
#ifdef __CUDA_ARCH__
  if constexpr (std::same_as<T, float>)
    return __fdividef(a, b);
  else
    return a / b;
#elif defined __RECIPROCAL_MATH__
  // g++ multiplies by the processor's approximate reciprocal, refined by a step of Newton's method,
  // which turns 1 into 1 - epsilon / 2 on most processors.
  using Bits = typename VectorMath<T>::Bits;
  return pick(std::bit_cast<Bits>(b) == std::bit_cast<Bits>(T{1}), a, a / b);
#else
  return a / b;
#endif
}

/// Returns e^(x - tail), or 0 where that is below the normal numbers.
/// @pre x <= 0 or NaN
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline T exp_of_negative(T x, T tail = T{})
{
#ifdef __CUDA_ARCH__
  if constexpr (std::same_as<T, float>)
    return exp_on_device(x, tail);
  else
#endif
  {
    constexpr T least = VectorMath<T>::least_exponent;
    const bool vanishes = is_less(x, least);
    const Power<T> e = power(pick(vanishes, least, x), tail);
    return pick(vanishes, T{}, (e.rest + T{1}) * e.scale);
  }
}

/// Returns e^x - 1.
/// @pre x is from `least_exponent` to 0, or NaN
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline T expm1_of_negative(T x)
{
  CUBIST_NO_REASSOCIATION
  const Power<T> e = power(x, T{});
  return e.rest * e.scale + as_written(e.scale - T{1});
}

/// Q(a) = gaussian ratio, the probability that a standard normal variable exceeds a, with gaussian
/// = e^(-a^2/2).
template <RealScalar T>
struct NormalTail
{
  T a;  // min(|x|, `tail_end`), where the gaussian is 0
  T gaussian;
  T ratio;
};

/// Returns Q(|x|).
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline NormalTail<T> normal_tail(T x)
{
  using M = VectorMath<T>;
  const T size = std::abs(x);
  const T a = pick(is_less(M::tail_end, size), M::tail_end, size);
  // a^2 = high^2 + (a - high) (a + high): the error of e^(-a^2/2) would be a^2/2 times the rounding
  // of a^2.
  const T high = std::bit_cast<T>(std::bit_cast<typename M::Bits>(a) & M::high_half);
  const T gaussian = exp_of_negative(T{-0.5} * high * high, T{0.5} * (a - high) * (a + high));
  const T t = quotient(T{1}, M::p * a + T{1});
  const T w = t - T{1};
  return {a, gaussian, t * (M::g(w) * w + T{0.5})};
}

/// Returns sqrt(x).
/// @pre x >= 0 or NaN
template <RealScalar T>
[[gnu::always_inline]] CUBIST_HOST_DEVICE inline T square_root(T x)
{
  CUBIST_NO_REASSOCIATION
  using M = VectorMath<T>;
  using Limits = std::numeric_limits<T>;
  // Subnormal numbers are scaled first, because the guess works for normal numbers.
  constexpr T up = T{1} / Limits::epsilon() / Limits::epsilon();
  constexpr T down = Limits::epsilon();
  const bool small = is_less(x, Limits::min());
  const T normal = pick(small, x * up, x);
  T y = std::bit_cast<T>(M::root_guess - (std::bit_cast<typename M::Bits>(normal) >> 1));
  for (int i = 0; i < M::root_steps; ++i) y = y * (T{1.5} - as_written(T{0.5} * normal * y) * y);
  const T rough = as_written(normal * y);
  const T root = (T{0.5} * y) * (normal - rough * rough) + rough;
  // Infinity and NaN are their own roots.
  return pick(is_finite(x), pick(small, root * down, root), x);
}

}  // namespace cubist::CUBIST_ABI::detail
