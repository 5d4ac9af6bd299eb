// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Chooses leading dimensions for matrices that are stored to be multiplied. A product reads down
// columns, and cache lines whose addresses differ by a multiple of a large power of two compete for
// few places in a cache. So rows at such a distance are padded by one line.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns the distance in elements from one row to the next, for rows of `cols` elements.
template <class T>
[[nodiscard]] constexpr std::size_t padded_leading_dimension(std::size_t cols)
{
  constexpr std::size_t line = 64 / sizeof(T);
  constexpr std::size_t conflict = 1024 / sizeof(T);
  return cols > 0 && cols % conflict == 0 ? cols + line : cols;
}

/// Returns how many elements a buffer for a matrix with padded rows needs.
template <class T>
[[nodiscard]] constexpr std::size_t padded_size(Shape shape)
{
  return shape.rows * padded_leading_dimension<T>(shape.cols);
}

/// Returns a view of the matrix with padded rows in `data`.
/// @pre `data` has `padded_size<T>(shape)` elements
template <class T>
[[nodiscard]] MatrixView<T> padded_view(T* data, Shape shape)
{
  return {data, shape.rows, shape.cols, padded_leading_dimension<T>(shape.cols)};
}

}  // namespace cubist::CUBIST_ABI
