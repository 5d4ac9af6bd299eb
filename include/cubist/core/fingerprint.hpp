// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A checksum of a matrix that does not depend on how the matrix is cut: the sum modulo 2^64, over
// all elements, of mix(the element's bits, its global index). Ranks sum over their blocks, in any
// order; a CRC would need the bytes in the order of the file.
//
// Two matrices that differ in one element have different fingerprints. Two that differ in more
// elements have equal ones with a probability of about 2^-64, unless someone made them equal on
// purpose. Elements are compared by their bits: -0.0 is not 0.0, and a NaN equals itself. A 16-bit
// element counts as the float of its value.
//
// Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014
// (splitmix64); its last step is variant 13 of Stafford, "Better bit mixing", 2011.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cubist/core/complex.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns the term of an element with these bits at this index. For each index it is one to one in
/// the bits.
[[nodiscard]] CUBIST_HOST_DEVICE constexpr std::uint64_t mix(std::uint64_t bits,
                                                             std::uint64_t index)
{
  std::uint64_t x = bits + (index + 1) * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Computes the terms of a block, whose first element is (i0, j0), of a row-major matrix with
/// `cols` columns. It is a function for an engine's `fold`. A complex number counts as two reals.
struct FingerprintTerm
{
  std::size_t i0 = 0;  ///< the block's first row in the whole matrix
  std::size_t j0 = 0;  ///< the block's first column in the whole matrix
  std::size_t cols = 0;

  template <class T>
  requires Scalar<T> || ComplexNumber<T>
  [[nodiscard]] CUBIST_HOST_DEVICE constexpr std::uint64_t operator()(std::size_t i, std::size_t j,
                                                                      const T& x) const
  {
    const std::uint64_t index = (i0 + i) * cols + j0 + j;
    if constexpr (ComplexNumber<T>)
      return mix(bits(x.real()), 2 * index) + mix(bits(x.imag()), 2 * index + 1);
    else
      return mix(bits(x), index);
  }

 private:
  template <RealScalar T>
  CUBIST_HOST_DEVICE static constexpr std::uint64_t bits(T x)
  {
    using Bits = std::conditional_t<std::same_as<T, double>, std::uint64_t, std::uint32_t>;
    return std::bit_cast<Bits>(Accumulator<T>{x});
  }
};

/// Returns the fingerprint of a block in host memory, whose first element is (i0, j0), of a
/// row-major matrix with `cols` columns. The fingerprints of a matrix's blocks add up to the
/// fingerprint of the matrix.
template <Scalar T>
[[nodiscard]] std::uint64_t fingerprint(MatrixView<const T> block, std::size_t i0, std::size_t j0,
                                        std::size_t cols)
{
  const FingerprintTerm term{i0, j0, cols};
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < block.rows(); ++i)
  {
    const T* row = block.row(i);
    for (std::size_t j = 0; j < block.cols(); ++j) sum += term(i, j, row[j]);
  }
  return sum;
}

/// Returns the fingerprint of a whole matrix in host memory.
template <Scalar T>
[[nodiscard]] std::uint64_t fingerprint(MatrixView<const T> matrix)
{
  return fingerprint(matrix, 0, 0, matrix.cols());
}

}  // namespace cubist::CUBIST_ABI
