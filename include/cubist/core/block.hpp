// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a dimension is cut: n indices, padded with zeros to a multiple of a quantum, are divided into
// equal blocks. Padding makes the parts of every collective equally long, as NCCL requires.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <ostream>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// The sizes of a matrix or of a block.
struct Shape
{
  std::size_t rows = 0;
  std::size_t cols = 0;

  [[nodiscard]] constexpr std::size_t size() const { return rows * cols; }
  friend constexpr bool operator==(const Shape&, const Shape&) = default;
};

/// Prints the shape for messages: "(16, 256)".
inline std::ostream& operator<<(std::ostream& out, Shape s)
{
  return out << '(' << s.rows << ", " << s.cols << ')';
}

/// Returns `s`, and checks that its sizes and indices, with padding, cannot overflow. The matrix
/// may still be larger than the memory.
/// @throws ShapeError for a matrix of more bytes than 64 bits can count
inline Shape require_countable(Shape s, std::size_t bytes_each)
{
  constexpr std::size_t padding = 256;
  const std::size_t most = std::numeric_limits<std::size_t>::max() / padding / bytes_each;
  require<ShapeError>(
      s.rows <= most && s.cols <= most && s.cols <= most / std::max(s.rows, std::size_t{1}),
      "got a matrix of ", s, " with ", bytes_each,
      " bytes per element, whose size in bytes does not fit in 64 bits; check its sizes for "
      "negative numbers, and for rows and columns that are swapped or multiplied");
  return s;
}

/// The sizes of a product: (m, k) times (k, n) gives (m, n).
struct ProductSize
{
  std::size_t m = 0;  ///< rows of X and Y
  std::size_t n = 0;  ///< columns of W and Y
  std::size_t k = 0;  ///< columns of X, rows of W

  friend constexpr bool operator==(const ProductSize&, const ProductSize&) = default;
};

/// Rows and columns that are cut are padded to multiples of these numbers.
struct Quanta
{
  std::size_t rows = 1;
  std::size_t cols = 1;

  Quanta() = default;
  /// Uses the same quantum for rows and columns.
  constexpr Quanta(std::size_t quantum)
      : rows{quantum},
        cols{quantum}
  {
  }
  constexpr Quanta(std::size_t of_rows, std::size_t of_cols)
      : rows{of_rows},
        cols{of_cols}
  {
  }

  friend constexpr bool operator==(const Quanta&, const Quanta&) = default;
};

/// The dimensions of a product are padded to multiples of these numbers; 0 stands for the mesh's
/// quantum.
struct ProductQuanta
{
  std::size_t m = 0;  ///< for the rows of X and Y
  std::size_t n = 0;  ///< for the columns of W and Y
  std::size_t k = 0;  ///< for the columns of X and the rows of W

  friend constexpr bool operator==(const ProductQuanta&, const ProductQuanta&) = default;
};

/// Returns n / parts, rounded up.
[[nodiscard]] constexpr std::size_t ceil_div(std::size_t n, std::size_t parts)
{
  return n / parts + (n % parts != 0 ? 1 : 0);
}

/// Returns `n`, rounded up to a multiple of `quantum`.
[[nodiscard]] constexpr std::size_t pad(std::size_t n, std::size_t quantum)
{
  return ceil_div(n, quantum) * quantum;
}

/// The indices [offset, offset + valid) of a dimension, padded to `size`.
struct Range
{
  std::size_t offset = 0;  ///< the first index within the whole matrix
  std::size_t size = 0;
  std::size_t valid = 0;  ///< the number of indices that are not padding

  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// Returns block `index` of `parts` of a dimension of `n` indices, padded to `padded`.
/// @pre parts divides padded, index < parts, n <= padded
[[nodiscard]] constexpr Range block_range(std::size_t n, std::size_t padded, std::size_t parts,
                                          std::size_t index)
{
  const std::size_t size = padded / parts;
  const std::size_t offset = std::min(index * size, n);
  return {offset, size, std::min(size, n - offset)};
}

/// The block of a global matrix that a rank owns.
struct Block
{
  Range rows;
  Range cols;

  /// The numbers of rows and columns, including padding.
  [[nodiscard]] constexpr Shape padded() const { return {rows.size, cols.size}; }
  [[nodiscard]] constexpr Shape valid() const { return {rows.valid, cols.valid}; }
  friend constexpr bool operator==(const Block&, const Block&) = default;
};

/// Returns part `index` of a range that is cut into parts of ceil(size / parts) indices. The last
/// parts may be shorter or empty.
[[nodiscard]] constexpr Range part_of_range(const Range& r, std::size_t parts, std::size_t index)
{
  const std::size_t step = ceil_div(r.size, parts);
  const std::size_t begin = std::min(index * step, r.size);
  const std::size_t size = std::min(step, r.size - begin);
  const std::size_t before = std::min(begin, r.valid);
  return {r.offset + before, size, std::min(size, r.valid - before)};
}

/// Returns part `index` of a block, which is contiguous in memory: some of the block's rows or, if
/// it is a single row, some of its columns.
[[nodiscard]] constexpr Block part_of_block(const Block& b, std::size_t parts, std::size_t index)
{
  if (b.rows.size == 1) return {b.rows, part_of_range(b.cols, parts, index)};
  return {part_of_range(b.rows, parts, index), b.cols};
}

}  // namespace cubist::CUBIST_ABI
