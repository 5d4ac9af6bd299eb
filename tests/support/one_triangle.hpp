// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matrices of which only one triangle is read, for tests of products with them. Elements are
// integers, so that products and solutions are exact.

#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

#include "matrices.hpp"

namespace cubist::test
{

template <class T>
[[nodiscard]] T conjugate(T x)
{
  if constexpr (ComplexScalar<T>)
    return std::conj(x);
  else
    return x;
}

/// Returns a function of the global index, whose values are small integers.
template <Scalar T>
[[nodiscard]] auto small_integers(std::uint64_t seed)
{
  return
      [seed](std::size_t i, std::size_t j) { return SmallIntegers::element<T>(hash(seed, i, j)); };
}

[[nodiscard]] inline bool is_in(Triangle triangle, std::size_t i, std::size_t j)
{
  return triangle == Triangle::lower ? j <= i : j >= i;
}

/// What is stored at (i, j): NaN where nothing may be read, else an integer. The diagonal of a
/// triangular matrix has roots of 1, so that division by them is exact.
template <Scalar T>
[[nodiscard]] T stored(const TriangularOperand& how, std::size_t i, std::size_t j)
{
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const bool is_read = is_in(how.triangle, i, j) && (i != j || how.diagonal == Diagonal::stored);
  if (!is_read) return scalar<T>(nan, nan);
  if (i != j) return SmallIntegers::element<T>(hash(7, i, j));
  if (ComplexScalar<T> && i % 3 == 0) return scalar<T>(0, 1);
  return scalar<T>(i % 2 == 0 ? 1 : -1, 0);
}
template <Scalar T>
[[nodiscard]] T stored(const SymmetricOperand& how, std::size_t i, std::size_t j)
{
  const double nan = std::numeric_limits<double>::quiet_NaN();
  if (!is_in(how.triangle, i, j)) return scalar<T>(nan, nan);
  // Nobody reads the imaginary parts on the diagonal of a Hermitian matrix.
  return SmallIntegers::element<T>(hash(8, i, j));
}

/// Element (i, j) of op(A).
template <Scalar T>
[[nodiscard]] T element(const TriangularOperand& how, std::size_t i, std::size_t j)
{
  if (how.op != Op::none) std::swap(i, j);
  if (!is_in(how.triangle, i, j)) return T{};
  if (i == j && how.diagonal == Diagonal::unit) return T{1};
  const T x = stored<T>(how, i, j);
  return how.op == Op::adjoint ? conjugate(x) : x;
}
/// Element (i, j) of A.
template <Scalar T>
[[nodiscard]] T element(const SymmetricOperand& how, std::size_t i, std::size_t j)
{
  const bool is_hermitian = how.symmetry == Symmetry::hermitian;
  if (!is_in(how.triangle, i, j))
  {
    const T x = stored<T>(how, j, i);
    return is_hermitian ? conjugate(x) : x;
  }
  const T x = stored<T>(how, i, j);
  if constexpr (ComplexScalar<T>)
    if (is_hermitian && i == j) return x.real();
  return x;
}

/// Element (i, j) of A B, or of B A.
/// @param n  the rows of A
/// @param b  b(i, j): returns element (i, j) of B
template <Scalar T, class Operand, class F>
[[nodiscard]] T product_at(const Operand& how, std::size_t n, F b, std::size_t i, std::size_t j)
{
  T sum{};
  for (std::size_t k = 0; k < n; ++k)
    sum +=
        how.side == Side::left ? element<T>(how, i, k) * b(k, j) : b(i, k) * element<T>(how, k, j);
  return sum;
}

}  // namespace cubist::test
