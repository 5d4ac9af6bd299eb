// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The triangles of a matrix, which are trapezoids if it is not square.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI
{

/// The part of a matrix that an operation reads and writes. The diagonal is in both triangles.
enum class MatrixPart : std::uint8_t
{
  all,    ///< every element
  upper,  ///< elements (i, j) with i <= j
  lower   ///< elements (i, j) with i >= j
};

namespace detail
{

/// Returns the part of the transpose.
[[nodiscard]] constexpr MatrixPart transposed(MatrixPart p)
{
  if (p == MatrixPart::all) return p;
  return p == MatrixPart::upper ? MatrixPart::lower : MatrixPart::upper;
}

/// The columns [begin, end) of a row that are in a part.
struct ColumnRange
{
  std::size_t begin = 0;
  std::size_t end = 0;
};
[[nodiscard]] constexpr ColumnRange columns_in(MatrixPart part, std::size_t i, std::size_t j,
                                               std::size_t cols)
{
  const std::size_t end = j + cols;
  if (part == MatrixPart::upper) return {std::clamp(i, j, end), end};
  if (part == MatrixPart::lower) return {j, std::clamp(i + 1, j, end)};
  return {j, end};
}

/// Returns the number of elements of a part in a rectangle whose first element is (i, j).
[[nodiscard]] inline std::size_t size_in(MatrixPart part, std::size_t i, std::size_t j, Shape s)
{
  if (part == MatrixPart::all) return s.size();
  if (part == MatrixPart::upper ? i + s.rows <= j + 1 : i + 1 >= j + s.cols) return s.size();
  std::size_t n = 0;
  for (std::size_t row = i; row < i + s.rows; ++row)
  {
    const ColumnRange c = columns_in(part, row, j, s.cols);
    n += c.end - c.begin;
  }
  return n;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
