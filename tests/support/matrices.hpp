// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matrices whose elements are functions of their global index, and their serial products as the
// reference. Every rank can compute any element locally, so a test itself needs no communication.

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::test
{

[[nodiscard]] inline std::uint64_t hash(std::uint64_t x)
{
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

[[nodiscard]] inline std::uint64_t hash(std::uint64_t seed, std::uint64_t i, std::uint64_t j)
{
  return hash(hash(hash(seed) ^ i) ^ j);
}

/// Makes a scalar from its real and imaginary part; a real scalar ignores the latter.
template <Scalar T>
[[nodiscard]] T scalar(double re, double im)
{
  using R = Real<T>;
  if constexpr (ComplexScalar<T>)
    return {static_cast<R>(re), static_cast<R>(im)};
  else
    return static_cast<R>(re);
}

/// Small integers: sums of their products are exact in any order.
struct SmallIntegers
{
  template <Scalar T>
  [[nodiscard]] static T element(std::uint64_t h)
  {
    return scalar<T>(static_cast<double>(h % 7) - 3, static_cast<double>(h / 7 % 7) - 3);
  }
};

/// Numbers in [-1, 1) with all digits of a float, so that sums depend on their order.
struct Fractions
{
  template <Scalar T>
  [[nodiscard]] static T element(std::uint64_t h)
  {
    const auto part = [](std::uint64_t bits) { return static_cast<double>(bits) * 0x1p-23 - 1; };
    return scalar<T>(part(h >> 40), part(h & 0xFFFFFFU));
  }
};

/// A global matrix, in one piece.
template <class T>
struct GlobalMatrix
{
  Shape shape;
  std::vector<T> data;

  explicit GlobalMatrix(Shape s)
      : shape{s},
        data(s.size())
  {
  }
  template <class F>
  GlobalMatrix(Shape s, F f)
      : GlobalMatrix{s}
  {
    for (std::size_t i = 0; i < s.rows; ++i)
      for (std::size_t j = 0; j < s.cols; ++j) (*this)(i, j) = f(i, j);
  }

  [[nodiscard]] T& operator()(std::size_t i, std::size_t j) { return data[i * shape.cols + j]; }
  [[nodiscard]] const T& operator()(std::size_t i, std::size_t j) const
  {
    return data[i * shape.cols + j];
  }
};

template <Scalar T, class Values = SmallIntegers>
[[nodiscard]] GlobalMatrix<T> random_matrix(Shape shape, std::uint64_t seed)
{
  return {shape, [seed](std::size_t i, std::size_t j) {
            return Values::template element<T>(hash(seed, i, j));
          }};
}

template <class T>
[[nodiscard]] GlobalMatrix<T> transposed(const GlobalMatrix<T>& a)
{
  return {{a.shape.cols, a.shape.rows}, [&a](std::size_t i, std::size_t j) { return a(j, i); }};
}

template <class T>
[[nodiscard]] GlobalMatrix<T> product(const GlobalMatrix<T>& a, const GlobalMatrix<T>& b)
{
  return {{a.shape.rows, b.shape.cols}, [&](std::size_t i, std::size_t j) {
            T sum{};
            for (std::size_t p = 0; p < a.shape.cols; ++p) sum += a(i, p) * b(p, j);
            return sum;
          }};
}

namespace matrices_detail
{
template <class T>
struct Wide
{
  using type = long double;
};
template <class T>
struct Wide<std::complex<T>>
{
  using type = std::complex<long double>;
};
}  // namespace matrices_detail

/// The more precise scalar with which rounded products are compared.
template <class T>
using Wide = typename matrices_detail::Wide<T>::type;

template <class T>
[[nodiscard]] GlobalMatrix<Wide<T>> widened(const GlobalMatrix<T>& a)
{
  return {a.shape, [&a](std::size_t i, std::size_t j) { return Wide<T>{a(i, j)}; }};
}

/// Computes |A|, element by element.
template <class T>
[[nodiscard]] GlobalMatrix<long double> magnitudes(const GlobalMatrix<T>& a)
{
  return {a.shape, [&a](std::size_t i, std::size_t j) { return std::abs(Wide<T>{a(i, j)}); }};
}

}  // namespace cubist::test
