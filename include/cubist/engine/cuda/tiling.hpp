// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How the threads of a kernel share the elements of a matrix. The tiling depends only on the shape
// and on the types of the elements, and so does an order of sums that follows from it.
//
// Columns are cut into chunks of `width` adjacent ones. A block has `across` threads side by side,
// with a chunk each, and down() such rows of threads; there are blocks_across x blocks_down blocks.
// If elements are left, these threads cover them, too, at a stride.

#include <algorithm>
#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI::detail
{

inline constexpr unsigned block_threads = 256;

/// How many blocks of a sum a multiprocessor runs at a time. The number limits the registers of a
/// thread: to 64, or to 40.
inline constexpr unsigned few_residents = 4;
inline constexpr unsigned many_residents = 6;
/// How many blocks of a sum a multiprocessor runs at a time, if a thread loads `series` chunks of
/// each matrix before it uses the first one.
template <unsigned series>
inline constexpr unsigned residents_of = series == 1 ? many_residents : few_residents;

/// How many blocks run at a time on a device of 132 multiprocessors. A sum with this many blocks
/// has few parts, and no last round that fills few multiprocessors.
[[nodiscard]] constexpr std::size_t filling_blocks(unsigned residents = few_residents)
{
  return std::size_t{132} * residents;
}

/// A thread of a kernel: the index of its block in the grid, and its index in the block.
struct KernelThread
{
  unsigned block;
  unsigned thread;
};

struct Tiling
{
  Shape shape = {};
  unsigned width = 1;
  unsigned across = 1;  // a power of two
  unsigned blocks_across = 1;
  unsigned blocks_down = 1;

  [[nodiscard]] CUBIST_HOST_DEVICE unsigned down() const { return block_threads / across; }
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned blocks() const { return blocks_across * blocks_down; }

  [[nodiscard]] CUBIST_HOST_DEVICE unsigned block_column(KernelThread at) const
  {
    return at.block % blocks_across;
  }
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned block_row(KernelThread at) const
  {
    return at.block / blocks_across;
  }
  /// The first row of a thread.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t row(KernelThread at) const
  {
    return std::size_t{block_row(at)} * down() + at.thread / across;
  }
  /// The first column of a thread.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t column(KernelThread at) const
  {
    return (std::size_t{block_column(at)} * across + at.thread % across) * width;
  }

  /// The distance between the rows of a thread.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t rows_apart() const
  {
    return std::size_t{blocks_down} * down();
  }
  /// The distance between the chunks of a thread in a row, in columns.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t columns_apart() const
  {
    return std::size_t{blocks_across} * across * width;
  }

  /// Calls f(i, j) for each chunk of a thread, whose first element is (i, j).
  template <class F>
  CUBIST_HOST_DEVICE void for_chunks(KernelThread at, F f) const
  {
    for (std::size_t i = row(at); i < shape.rows; i += rows_apart())
      for (std::size_t j = column(at); j < shape.cols; j += columns_apart()) f(i, j);
  }
};

/// Returns the number of threads across for this many chunks, at most `most`; both are positive.
[[nodiscard]] constexpr unsigned threads_across(std::size_t chunks, unsigned most)
{
  unsigned across = 1;
  while (across < most && across < chunks) across *= 2;
  return across;
}

[[nodiscard]] constexpr unsigned block_count(std::size_t wanted, std::size_t most)
{
  return static_cast<unsigned>(std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(most, 1)));
}

/// The maximum number of blocks of a map over one row: with this many, a device already copies at
/// full speed.
inline constexpr std::size_t most_map_blocks = 4224;

/// Returns the tiling of a map: each thread has one chunk, unless there are many.
[[nodiscard]] inline Tiling map_tiling(Shape shape, unsigned width)
{
  const std::size_t chunks = ceil_div(shape.cols, width);
  Tiling t{shape, width, threads_across(chunks, block_threads)};
  // Fewer threads go across while more than a tenth of them would be idle.
  while (t.across > 32 && 10 * chunks < 9 * ceil_div(chunks, t.across) * t.across) t.across /= 2;
  t.blocks_across = block_count(ceil_div(chunks, t.across), most_map_blocks);
  t.blocks_down = block_count(ceil_div(shape.rows, t.down()), most_map_blocks / t.blocks_across);
  return t;
}

/// Returns the tiling of sums of columns. Each thread has one chunk of columns, and at least four
/// rows if several blocks share a column, so that their parts are few. Blocks are narrow if there
/// are few columns, since each sum of a block takes a thread.
[[nodiscard]] inline Tiling column_tiling(Shape shape, unsigned width,
                                          unsigned residents = few_residents)
{
  const std::size_t chunks = ceil_div(shape.cols, width);
  Tiling t{shape, width, threads_across(chunks, 32)};
  while (t.across > 8 && chunks < std::size_t{16} * t.across) t.across /= 2;
  const std::size_t blocks_across = ceil_div(chunks, t.across);
  t.blocks_across = static_cast<unsigned>(blocks_across);
  t.blocks_down = block_count(filling_blocks(residents) / blocks_across,
                              shape.rows / (std::size_t{4} * t.down()));
  return t;
}

/// Returns the tiling of folds of rows. Each thread has one row, and a few chunks of it. If rows
/// are many, each has few threads, at least two, which read a sector of 32 bytes together; if rows
/// are few, several blocks share one.
[[nodiscard]] inline Tiling row_tiling(Shape shape, unsigned width)
{
  const std::size_t chunks = ceil_div(shape.cols, width);
  const std::size_t threads =
      filling_blocks() * block_threads / std::max<std::size_t>(shape.rows, 1);
  Tiling t{shape, width, threads_across(ceil_div(chunks, 4), block_threads)};
  while (t.across > 2 && t.across > threads) t.across /= 2;
  const std::size_t blocks_down = ceil_div(shape.rows, t.down());
  t.blocks_down = static_cast<unsigned>(blocks_down);
  t.blocks_across =
      block_count(filling_blocks() / blocks_down, chunks / (std::size_t{4} * t.across));
  return t;
}

/// Returns the tiling of a fold of all elements: at most as many blocks as run at a time.
[[nodiscard]] inline Tiling fold_tiling(Shape shape, unsigned width,
                                        unsigned residents = few_residents)
{
  const std::size_t chunks = ceil_div(shape.cols, width);
  Tiling t{shape, width, threads_across(chunks, block_threads)};
  t.blocks_across = block_count(ceil_div(chunks, t.across), filling_blocks(residents));
  t.blocks_down =
      block_count(ceil_div(shape.rows, t.down()), filling_blocks(residents) / t.blocks_across);
  return t;
}

}  // namespace cubist::CUBIST_ABI::detail
