// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The scalar types of matrices, and the element types that ranks exchange.

#include <complex>
#include <concepts>
#include <string>
#include <type_traits>

#include "cubist/core/float16.hpp"

namespace cubist::CUBIST_ABI
{

/// A 16-bit real number; arithmetic on it is done in float.
template <class T>
concept ShortReal = std::same_as<T, bfloat16> || std::same_as<T, half>;

/// Float, double, and the 16-bit types.
template <class T>
concept RealScalar = std::same_as<T, float> || std::same_as<T, double> || ShortReal<T>;

/// std::complex<float> and std::complex<double>.
template <class T>
concept ComplexScalar =
    std::same_as<T, std::complex<float>> || std::same_as<T, std::complex<double>>;

/// The types of a matrix: the four that BLAS multiplies, and two with 16 bits.
template <class T>
concept Scalar = RealScalar<T> || ComplexScalar<T>;

/// The types that a communicator transfers: scalars and integers.
template <class T>
concept Element = Scalar<T> ||(std::integral<T> && !std::same_as<T, bool>);

namespace detail
{
template <class T>
struct RealOf
{
  using type = T;
};

template <class T>
struct RealOf<std::complex<T>>
{
  using type = T;
};
}  // namespace detail

/// The real type of a scalar: float for float and std::complex<float>.
template <Scalar T>
using Real = typename detail::RealOf<T>::type;

/// The type in which elements of type T are computed and summed: float for 16 bits, otherwise T.
template <class T>
using Accumulator = std::conditional_t<ShortReal<T>, float, T>;

/// Returns the name of an element type, for messages: "float", "bfloat16", "complex<double>",
/// "int32".
template <Element T>
[[nodiscard]] std::string element_name()
{
  if constexpr (std::same_as<T, float>) return "float";
  if constexpr (std::same_as<T, double>) return "double";
  if constexpr (std::same_as<T, bfloat16>) return "bfloat16";
  if constexpr (std::same_as<T, half>) return "half";
  if constexpr (std::same_as<T, std::complex<float>>) return "complex<float>";
  if constexpr (std::same_as<T, std::complex<double>>) return "complex<double>";
  if constexpr (std::integral<T>)
    return (std::unsigned_integral<T> ? "uint" : "int") + std::to_string(8 * sizeof(T));
}

}  // namespace cubist::CUBIST_ABI
