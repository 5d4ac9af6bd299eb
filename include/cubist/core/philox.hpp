// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counter-based random numbers. A number depends only on the seed, the stream and the global index,
// so it is the same on every scheme, mesh and backend, in whatever order it is computed. Uniform
// numbers are exact; two of them make normal ones (core/box_muller.hpp).
//
// Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
// Philox4x32-10 of the Random123 library.

#include <cstdint>
#include <limits>

// Philox needs no SSE types; without them the header does not parse the compiler's intrinsics.
#pragma push_macro("R123_USE_SSE")
#undef R123_USE_SSE
#define R123_USE_SSE 0
#include <Random123/philox.h>
#pragma pop_macro("R123_USE_SSE")

#include "cubist/core/box_muller.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A family of independent streams of random numbers.
class Philox
{
 public:
  /// Selects a stream: under one seed, each weight, and each dropout mask of each step, has its
  /// own.
  CUBIST_HOST_DEVICE constexpr Philox(std::uint64_t seed, std::uint64_t stream)
      : seed_{seed},
        stream_{stream}
  {
  }

  /// Returns the 64 random bits at `index`.
  [[nodiscard]] CUBIST_HOST_DEVICE std::uint64_t bits(std::uint64_t index) const
  {
    const auto word = words(index);
    return std::uint64_t{word[0]} << 32 | word[1];
  }

  /// Returns the number at `index`, uniform in [0, 1); a complex one is uniform in the unit square.
  template <Scalar T>
  [[nodiscard]] CUBIST_HOST_DEVICE T uniform(std::uint64_t index) const
  {
    const auto word = words(index);
    if constexpr (ComplexScalar<T>)
      return {unit<Real<T>>(word[0], word[1]), unit<Real<T>>(word[2], word[3])};
    else
      return unit<T>(word[0], word[1]);
  }

  /// Returns the number at `index`, uniform in [-bound, bound), in each component of a complex one.
  template <Scalar T>
  [[nodiscard]] CUBIST_HOST_DEVICE T symmetric(std::uint64_t index, Real<T> bound) const
  {
    const auto u = uniform<T>(index);
    if constexpr (ComplexScalar<T>)
      return {centre(u.real(), bound), centre(u.imag(), bound)};
    else
      return centre(u, bound);
  }

  /// Returns the number at `index`, normal with mean 0 and this standard deviation, in each
  /// component of a complex one; at most 8.58 deviations in size. It is computed in double, and
  /// rounded to T.
  template <Scalar T>
  [[nodiscard]] CUBIST_HOST_DEVICE T normal(std::uint64_t index, Real<T> deviation) const
  {
    const auto word = words(index);
    const auto [x, y] = detail::box_muller(fraction(word[0], word[1]), fraction(word[2], word[3]));
    const auto scaled = [&](double z) { return static_cast<Real<T>>(z * double{deviation}); };
    if constexpr (ComplexScalar<T>)
      return {scaled(x), scaled(y)};
    else
      return scaled(x);
  }

 private:
  [[nodiscard]] CUBIST_HOST_DEVICE r123::Philox4x32::ctr_type words(std::uint64_t index) const
  {
    return r123::Philox4x32{}({{low(index), low(index >> 32), low(stream_), low(stream_ >> 32)}},
                              {{low(seed_), low(seed_ >> 32)}});
  }

  CUBIST_HOST_DEVICE static constexpr std::uint32_t low(std::uint64_t x)
  {
    return static_cast<std::uint32_t>(x);
  }

  /// Returns 53 random bits.
  CUBIST_HOST_DEVICE static constexpr std::uint64_t fraction(std::uint32_t a, std::uint32_t b)
  {
    return (std::uint64_t{a} << 21) ^ (b >> 11);
  }

  // Takes as many random bits as the mantissa holds, so that every value is exact and never reaches
  // 1.
  template <RealScalar T>
  CUBIST_HOST_DEVICE static T unit(std::uint32_t a, std::uint32_t b)
  {
    if constexpr (std::same_as<T, double>)
      return static_cast<double>(fraction(a, b)) * 0x1p-53;
    else
    {
      constexpr int digits = std::numeric_limits<T>::digits;
      constexpr float last_place = 1.0F / static_cast<float>(1U << digits);
      return static_cast<float>(a >> (32 - digits)) * last_place;
    }
  }

  template <RealScalar T>
  CUBIST_HOST_DEVICE static T centre(T u, T bound)
  {
    return (T{2} * u - T{1}) * bound;
  }

  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace cubist::CUBIST_ABI
