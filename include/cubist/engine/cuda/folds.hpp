// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of folds. Each thread folds elements at a fixed stride, and a tree combines the
// threads of a block. If rows are short and many, a thread folds elements of several rows. If
// several blocks share a row, or all elements, the last of them to arrive folds their parts in the
// same way. The order depends only on the shape and the types, so results are the same on every
// run.

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

/// A partial result. It may be empty, because there is no neutral element.
template <class T>
struct Folded
{
  T value;
  bool has_value;

  template <class Combine>
  CUBIST_HOST_DEVICE void add(const T& x, Combine combine)
  {
    value = has_value ? static_cast<T>(device_result(combine(value, x))) : x;
    has_value = true;
  }
  template <class Combine>
  CUBIST_HOST_DEVICE void add(const Folded& x, Combine combine)
  {
    if (x.has_value) add(x.value, combine);
  }
  /// Returns init, combined with the value if there is one.
  template <class Combine>
  CUBIST_HOST_DEVICE T with(const T& init, Combine combine) const
  {
    return has_value ? static_cast<T>(device_result(combine(init, value))) : init;
  }
};

/// Folds f(i, j, m(i, j), …) over the columns of each row, or over all elements; f returns a value
/// or a part.
/// @tparam series  the number of chunks in a series
template <class Out, class V, class Combine, class F, unsigned n, unsigned series>
struct FoldKernel
{
  using Part = Folded<V>;
  static constexpr unsigned residents = residents_of<series>;

  Tiling tiling;
  bool aligned;
  bool by_row;
  Part* parts;  // null if one block computes each result
  MatrixView<Out> out;
  V init;
  Combine combiner;
  F f;

  /// The number of a block's threads that share a result.
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned tree_size() const
  {
    return by_row ? tiling.across : block_threads;
  }

  /// The group of a block: the blocks that share a result form one.
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned group(KernelThread at) const
  {
    return by_row ? tiling.block_row(at) : 0;
  }
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned blocks_of_group() const
  {
    return by_row ? tiling.blocks_across : tiling.blocks();
  }

  template <class... T>
  CUBIST_HOST_DEVICE void start(KernelThread at, Part* shared, const MatrixView<T>&... m) const
  {
    Part mine[series];
    CUBIST_UNROLL
    for (unsigned r = 0; r < series; ++r) mine[r] = {init, false};
    // A series goes down if a thread has one chunk of a row, or else to the right.
    const std::size_t rows = tiling.rows_apart(), cols = tiling.columns_apart();
    const bool goes_down = cols >= tiling.shape.cols;
    const SeriesPlace step{goes_down ? series * rows : rows, goes_down ? cols : series * cols,
                           goes_down ? rows : 0, goes_down ? 0 : cols};
    for (std::size_t i = tiling.row(at); i < tiling.shape.rows; i += step.i)
      for (std::size_t j = tiling.column(at); j < tiling.shape.cols; j += step.j)
        fold_series({i, j, step.down, step.right}, mine, m...);
    CUBIST_UNROLL
    for (unsigned r = 1; r < series; ++r) mine[0].add(mine[r], combiner);
    shared[at.thread] = mine[0];
  }
  CUBIST_HOST_DEVICE void combine(KernelThread at, unsigned half, Part* shared) const
  {
    if (at.thread % tree_size() < half) shared[at.thread].add(shared[at.thread + half], combiner);
  }
  CUBIST_HOST_DEVICE void finish(KernelThread at, const Part* shared) const
  {
    const std::size_t row = by_row ? tiling.row(at) : 0;
    if (at.thread % tree_size() != 0 || row >= tiling.shape.rows) return;
    const Part& all = shared[at.thread];
    if (!parts)
      detail::store(out(row, 0), all.with(init, combiner));
    else if (by_row)
      parts[row * tiling.blocks_across + tiling.block_column(at)] = all;
    else
      parts[at.block] = all;
  }

 private:
  /// Folds the r-th chunk of the series into mine[r].
  template <class... T>
  CUBIST_HOST_DEVICE void fold_series(const SeriesPlace& place, Part (&mine)[series],
                                      const MatrixView<T>&... m) const
  {
    for_series<n, series>(
        aligned, place, tiling.shape,
        [&](unsigned r, unsigned k, auto&... x) {
          const auto value = device_result(f(place.row(r), place.column(r) + k, x...));
          on_register(mine, r, [&](Part& part) { part.add(value, combiner); });
        },
        m...);
  }
};

/// Sets out(i, 0) to the fold of f(i, j, m(i, j), …) over j if `by_row`; otherwise sets out(0, 0)
/// to the fold over i and j.
/// @pre there are rows and, unless `by_row`, also elements
template <class Kernels, class Out, class V, class Combine, class F, class... T>
void fold_to(MatrixView<Out> out, bool by_row, Shape shape, V init, Combine combine, F f,
             MatrixView<T>... m)
{
  using Part = Folded<V>;
  constexpr unsigned n = chunk_width_of<T...>;
  constexpr unsigned series = series_length<T...>;
  const Tiling tiling = by_row ? row_tiling(shape, n) : fold_tiling(shape, n, residents_of<series>);
  const bool aligned = (chunks_are_aligned<n>(m) && ...);
  const Shape of_parts = by_row ? Shape{tiling.shape.rows, tiling.blocks_across}
                                : Shape{1, std::size_t{tiling.blocks()}};
  const bool one = of_parts.cols == 1;
  Part* const parts = one ? nullptr : Kernels::template workspace<Part>(of_parts.size());
  const FoldKernel<Out, V, Combine, F, n, series> kernel{tiling, aligned, by_row,  parts,
                                                         out,    init,    combine, f};
  if (one) return Kernels::reduce(kernel, m...);
  Tiling last{of_parts, 1, by_row ? tiling.across : block_threads};
  last.blocks_down = by_row ? tiling.blocks_down : 1;
  Kernels::reduce_parts(kernel,
                        FoldKernel<Out, V, Combine, Itself, 1, series_length<Part>>{
                            last, false, true, nullptr, out, init, combine, Itself{}},
                        MatrixView<const Part>{parts, of_parts}, m...);
}

/// Computes the fold over all elements, and waits for it.
/// @pre there are elements
template <class Kernels, class V, class Combine, class F, class... T>
[[nodiscard]] V fold_all(Shape shape, V init, Combine combine, F f, MatrixView<T>... m)
{
  V* const result = Kernels::template result<V>();
  fold_to<Kernels>(MatrixView<V>{result, {1, 1}}, false, shape, init, combine, f, m...);
  return Kernels::read(result);
}

}  // namespace cubist::CUBIST_ABI::detail
