// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Turns two uniform numbers u and v into two independent standard normal numbers, with the same
// bits on every processor and compiler:
//
//   r = sqrt(-2 ln(1 - u))    x = r cos(2 pi v)    y = r sin(2 pi v)
//
//   ln(2^e m), sqrt(1/2) <= m < sqrt(2)    e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1)
//   cos and sin of 2 pi (n/4 + w), |w| <= 1/8    +- cos or +- sin of 2 pi w
//
// atanh, cos and sin are Taylor polynomials, whose next term is below 2^-58 of the sum. Libraries
// differ in the last bits of std::log and std::cos, and only some compilers contract a product and
// a sum to one operation. So this header uses only operations that IEEE 754 defines to the bit, and
// std::fma for a product followed by a sum. With -ffast-math the last bits differ.
//
// Source: Box, Muller, "A note on the generation of random normal deviates", 1958; Cody, Waite,
// "Software Manual for the Elementary Functions", 1980 (the reductions).

#include <bit>
#include <cmath>
#include <cstdint>

#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Evaluates c + c' x + c'' x^2 + … at x.
template <class... C>
[[nodiscard]] CUBIST_HOST_DEVICE inline double fma_polynomial(double x, double c, C... more)
{
  if constexpr (sizeof...(C) == 0)
    return c;
  else
    return std::fma(fma_polynomial(x, more...), x, c);
}

/// Returns ln(k 2^-53).
/// @pre 0 < k <= 2^53
[[nodiscard]] CUBIST_HOST_DEVICE inline double log_of_fraction(std::uint64_t k)
{
  constexpr double ln2 = 0.693147180559945309417;
  constexpr std::uint64_t root_half = 0x3fe6'a09e'667f'3bcd;  // the bits of sqrt(1/2)
  const auto bits = std::bit_cast<std::uint64_t>(static_cast<double>(k) * 0x1p-53);
  const auto e = static_cast<std::int64_t>(bits - root_half) >> 52;
  const auto m = std::bit_cast<double>(bits - (static_cast<std::uint64_t>(e) << 52));
  const double s = (m - 1) / (m + 1);
  const double atanh_over_s =
      fma_polynomial(s * s, 1.0, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15,
                     1.0 / 17, 1.0 / 19, 1.0 / 21);
  return std::fma(static_cast<double>(e), ln2, 2 * s * atanh_over_s);
}

struct Point
{
  double x;
  double y;
};

/// Returns (cos, sin) of 2 pi k 2^-53.
/// @pre k < 2^53
[[nodiscard]] CUBIST_HOST_DEVICE inline Point point_on_circle(std::uint64_t k)
{
  constexpr double two_pi = 6.28318530717958647693;
  const std::uint64_t n = (k + (std::uint64_t{1} << 50)) >> 51;
  const auto rest = static_cast<std::int64_t>(k - (n << 51));
  const double a = two_pi * (static_cast<double>(rest) * 0x1p-53);
  const double cosine =
      fma_polynomial(a * a, 1.0, -1.0 / 2, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800,
                     1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000);
  const double sine = a * fma_polynomial(a * a, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880,
                                         -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000,
                                         1.0 / 355687428096000);
  const bool odd = (n & 1) != 0;
  const double x = odd ? sine : cosine;
  const double y = odd ? cosine : sine;
  return {((n + 1) & 2) != 0 ? -x : x, (n & 2) != 0 ? -y : y};
}

/// Returns two independent standard normal numbers for u = k 2^-53 and v = l 2^-53; at most 8.58 in
/// size.
/// @pre k, l < 2^53
[[nodiscard]] CUBIST_HOST_DEVICE inline Point box_muller(std::uint64_t k, std::uint64_t l)
{
  const double r = std::sqrt(-2 * log_of_fraction((std::uint64_t{1} << 53) - k));
  const Point p = point_on_circle(l);
  return {r * p.x, r * p.y};
}

}  // namespace cubist::CUBIST_ABI::detail
