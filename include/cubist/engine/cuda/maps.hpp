// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernels of maps and of column sums.
//
//   maps          each thread calls a function on its elements of all matrices
//   column sums   each thread sums elements of a chunk of columns, and a tree combines the threads
//                 of a block. If there are many rows, several blocks share a column, and the last
//                 of them to arrive adds their sums in the same way. The order depends only on the
//                 shape and the types
//
// Kernels are objects that a device's threads call (launch.hpp), and that tests call on the host.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/tiling.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Calls f(i, j, m(i, j), …) on a thread's elements.
template <class F, unsigned n>
struct ElementKernel
{
  Tiling tiling;
  bool aligned;
  F f;

  template <class... T>
  CUBIST_HOST_DEVICE void run(KernelThread at, const MatrixView<T>&... m) const
  {
    tiling.for_chunks(at, [&](std::size_t i, std::size_t j) {
      for_chunk<n>(
          aligned, i, j, tiling.shape.cols, [&](unsigned k, auto&... x) { f(i, j + k, x...); },
          m...);
    });
  }
};

/// Calls f(i, j, m(i, j), …) on all elements.
/// @pre there are elements
template <class Kernels, class F, class... T>
void map_elements(Shape shape, F f, MatrixView<T>... m)
{
  constexpr unsigned n = sizeof...(T) == 0 ? 1 : chunk_width_of<T...>;
  const ElementKernel<F, n> kernel{map_tiling(shape, n), (chunks_are_aligned<n>(m) && ...), f};
  Kernels::run(kernel, m...);
}

/// Sets sums[j] to the sum over i of f(i, j, m(i, j), …). If several blocks share a column, each
/// block writes its part to a row of `parts`.
/// @tparam series  the number of chunks in a series: one for a function of several matrices, so
/// that more threads run
template <class S, class F, unsigned n, unsigned series>
struct ColumnSumKernel
{
  static constexpr unsigned residents = residents_of<series>;
  using Total = DeviceValue<S>;
  struct Part
  {
    Total sums[n];
  };

  Tiling tiling;
  bool aligned;
  Total* parts;  // null if one block computes each column
  S* sums;
  F f;

  [[nodiscard]] CUBIST_HOST_DEVICE unsigned tree_size() const { return tiling.down(); }
  /// The group of a block: the blocks that share a column form one.
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned group(KernelThread at) const
  {
    return tiling.block_column(at);
  }
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned blocks_of_group() const { return tiling.blocks_down; }

  template <class... T>
  CUBIST_HOST_DEVICE void start(KernelThread at, Part* shared, const MatrixView<T>&... m) const
  {
    Part mine{};
    const std::size_t j = tiling.column(at);
    const std::size_t step = tiling.rows_apart();
    if (j < tiling.shape.cols)
      for (std::size_t i = tiling.row(at); i < tiling.shape.rows; i += series * step)
        for_series<n, series>(
            aligned, {i, j, step, 0}, tiling.shape,
            [&](unsigned r, unsigned k, auto&... x) {
              const Total value = f(i + r * step, j + k, x...);
              on_register(mine.sums, k, [&](Total& sum) { sum += value; });
            },
            m...);
    shared[at.thread] = mine;
  }
  CUBIST_HOST_DEVICE void combine(KernelThread at, unsigned half, Part* shared) const
  {
    if (at.thread / tiling.across >= half) return;
    Part& mine = shared[at.thread];
    const Part& other = shared[at.thread + half * tiling.across];
    CUBIST_UNROLL
    for (unsigned k = 0; k < n; ++k) mine.sums[k] += other.sums[k];
  }
  CUBIST_HOST_DEVICE void finish(KernelThread at, const Part* shared) const
  {
    if (at.thread >= tiling.across) return;
    const Part& all = shared[at.thread];
    const std::size_t j = tiling.column(at);
    const std::size_t cols = tiling.shape.cols;
    for (unsigned k = 0; k < n && j + k < cols; ++k)
      if (parts)
        parts[tiling.block_row(at) * cols + j + k] = all.sums[k];
      else
        detail::store(sums[j + k], all.sums[k]);
  }
};

/// Sets sums[j] to the sum over i of f(i, j, m(i, j), …).
/// @pre there are columns
template <class Kernels, class S, class F, class... T>
void sum_columns(Shape shape, S* sums, F f, MatrixView<T>... m)
{
  using Total = DeviceValue<S>;
  constexpr unsigned n = chunk_width_of<T...>;
  constexpr unsigned series = series_length<T...>;
  using Kernel = ColumnSumKernel<S, F, n, series>;
  const Tiling tiling = column_tiling(shape, n, Kernel::residents);
  const bool aligned = (chunks_are_aligned<n>(m) && ...);
  const bool one = tiling.blocks_down == 1;
  const Shape of_parts{tiling.blocks_down, shape.cols};
  Total* const parts = one ? nullptr : Kernels::template workspace<Total>(of_parts.size());
  const Kernel kernel{tiling, aligned, parts, sums, f};
  if (one) return Kernels::reduce(kernel, m...);
  // The chunks of the parts have 16 bytes, too, and a block has as many columns as before.
  constexpr unsigned parts_n = chunk_width_of<const Total>;
  static_assert(n % parts_n == 0);
  Tiling last = tiling;
  last.shape = of_parts;
  last.width = parts_n;
  last.across *= n / parts_n;
  last.blocks_down = 1;
  const MatrixView<const Total> all{parts, of_parts};
  Kernels::reduce_parts(kernel,
                        ColumnSumKernel<S, Itself, parts_n, 4>{
                            last, chunks_are_aligned<parts_n>(all), nullptr, sums, {}},
                        all, m...);
}

}  // namespace cubist::CUBIST_ABI::detail
