// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Whether a number is finite or a NaN, by its bits. The tests of <cmath> and comparisons such as x
// != x are folded away where a compiler may assume finite numbers (-ffast-math); these are not.

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI
{

/// Whether x is neither an infinity nor a NaN.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr bool is_finite(T x)
{
  using Bits = std::conditional_t<std::same_as<T, float>, std::uint32_t, std::uint64_t>;
  constexpr int digits = std::same_as<T, float> ? 23 : 52;
  constexpr Bits infinity = (std::same_as<T, float> ? Bits{0xffU} : Bits{0x7ffU}) << digits;
  return (std::bit_cast<Bits>(x) & infinity) != infinity;
}

/// Whether x is a NaN.
template <class T>
requires std::same_as<T, float> || std::same_as<T, double>
[[nodiscard]] CUBIST_HOST_DEVICE constexpr bool is_nan(T x)
{
  using Bits = std::conditional_t<std::same_as<T, float>, std::uint32_t, std::uint64_t>;
  constexpr int digits = std::same_as<T, float> ? 23 : 52;
  constexpr Bits infinity = (std::same_as<T, float> ? Bits{0xffU} : Bits{0x7ffU}) << digits;
  return (std::bit_cast<Bits>(x) & (~Bits{} >> 1)) > infinity;
}

}  // namespace cubist::CUBIST_ABI
