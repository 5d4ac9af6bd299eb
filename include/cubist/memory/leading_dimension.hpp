// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How far apart the rows of a matrix are best stored that is made only to be multiplied: a cache
// has few places for lines whose addresses differ by a multiple of a large power of two, and a
// product goes down columns. Rows that would be so far apart get one line more.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"

namespace cubist
{

/// Elements from one row to the next.
template <class T>
[[nodiscard]] constexpr std::size_t leading_dimension(std::size_t cols)
{
  constexpr std::size_t line = 64 / sizeof(T);
  constexpr std::size_t far = 1024 / sizeof(T);
  return cols > 0 && cols % far == 0 ? cols + line : cols;
}

/// Elements that such a matrix takes.
template <class T>
[[nodiscard]] constexpr std::size_t elements_apart(Shape shape)
{
  return shape.rows * leading_dimension<T>(shape.cols);
}

/// Such a matrix in `data`.
/// @pre `data` has room for `elements_apart<T>(shape)` elements
template <class T>
[[nodiscard]] MatrixView<T> rows_apart(T* data, Shape shape)
{
  return {data, shape.rows, shape.cols, leading_dimension<T>(shape.cols)};
}

}  // namespace cubist
