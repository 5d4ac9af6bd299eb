// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of folds. Each thread folds elements at a fixed stride, and a tree combines threads of
// a block; where rows are short and many, a thread has elements of several rows. Where several
// blocks share a row, or all elements, a second kernel folds their parts in the same way. The order
// depends on the shape and the types alone, so results are the same on every run.

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

/// A partial result, which may be empty because there is no neutral element.
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
  /// init, combined with the value if there is one.
  template <class Combine>
  CUBIST_HOST_DEVICE T with(const T& init, Combine combine) const
  {
    return has_value ? static_cast<T>(device_result(combine(init, value))) : init;
  }
};

/// Folds f(i, j, m(i, j), …) over the columns of each row, or over all elements; f returns a value
/// or a part.
template <class Out, class V, class Combine, class F, unsigned n>
struct FoldKernel
{
  using Part = Folded<V>;
  static constexpr unsigned parts_of_thread = short_rows_of_thread;

  Tiling tiling;
  bool aligned;
  bool by_row;
  bool has_short_rows;  // a thread has a chunk of several rows, each with a result
  Part* parts;          // null if there is one block for a result
  MatrixView<Out> out;
  V init;
  Combine combiner;
  F f;

  /// The threads of a block that have the same result.
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned tree_size() const
  {
    return by_row ? tiling.across : block_threads;
  }

  template <class... T>
  CUBIST_HOST_DEVICE void start(KernelThread at, Part* shared, const MatrixView<T>&... m) const
  {
    Part mine[parts_of_thread] = {{init, false}, {init, false}, {init, false}, {init, false}};
    if (has_short_rows)
      fold_series<parts_of_thread>({tiling.row(at), tiling.column(at), tiling.rows_apart(), 0},
                                   mine, m...);
    else
    {
      constexpr unsigned count = series_length<T...>;
      const std::size_t step = tiling.columns_apart();
      for (std::size_t i = tiling.row(at); i < tiling.shape.rows; i += tiling.rows_apart())
        for (std::size_t j = tiling.column(at); j < tiling.shape.cols; j += count * step)
          fold_series<count>({i, j, 0, step}, mine, m...);
      CUBIST_UNROLL
      for (unsigned r = 1; r < count; ++r) mine[0].add(mine[r], combiner);
    }
    CUBIST_UNROLL
    for (unsigned r = 0; r < parts_of_thread; ++r)
      if (r < rows_of_thread()) shared[r * block_threads + at.thread] = mine[r];
  }
  CUBIST_HOST_DEVICE void combine(KernelThread at, unsigned half, Part* shared) const
  {
    if (at.thread % tree_size() >= half) return;
    for (unsigned r = 0; r < rows_of_thread(); ++r)
    {
      Part* const mine = shared + r * block_threads + at.thread;
      mine[0].add(mine[half], combiner);
    }
  }
  CUBIST_HOST_DEVICE void finish(KernelThread at, const Part* shared) const
  {
    if (at.thread % tree_size() != 0) return;
    for (unsigned r = 0; r < rows_of_thread(); ++r)
    {
      const std::size_t row = by_row ? tiling.row(at) + r * tiling.rows_apart() : 0;
      if (row >= tiling.shape.rows) return;
      const Part& all = shared[r * block_threads + at.thread];
      if (!parts)
        detail::store(out(row, 0), all.with(init, combiner));
      else if (by_row)
        parts[row * tiling.blocks_across + tiling.block_column(at)] = all;
      else
        parts[at.block] = all;
    }
  }

 private:
  /// How many results a thread takes part in.
  [[nodiscard]] CUBIST_HOST_DEVICE unsigned rows_of_thread() const
  {
    return has_short_rows ? parts_of_thread : 1;
  }
  /// mine[r] = the fold of it and of the r-th chunk of the series
  template <unsigned count, class... T>
  CUBIST_HOST_DEVICE void fold_series(const SeriesPlace& place, Part (&mine)[parts_of_thread],
                                      const MatrixView<T>&... m) const
  {
    for_series<n, count>(
        aligned, place, tiling.shape,
        [&](unsigned r, unsigned k, auto&... x) {
          const auto value = device_result(f(place.row(r), place.column(r) + k, x...));
          on_register(mine, r, [&](Part& part) { part.add(value, combiner); });
        },
        m...);
  }
};

/// out(i, 0) = the fold of f(i, j, m(i, j), …) over j or, unless it is by row, out(0, 0) = the fold
/// over i and j.
/// @pre there are rows or, unless it is by row, elements
template <class Kernels, class Out, class V, class Combine, class F, class... T>
void fold_to(MatrixView<Out> out, bool by_row, Shape shape, V init, Combine combine, F f,
             MatrixView<T>... m)
{
  using Part = Folded<V>;
  constexpr unsigned n = chunk_width_of<T...>;
  const Tiling tiling = by_row ? row_tiling(shape, n) : fold_tiling(shape, n);
  const bool aligned = (chunks_are_aligned<n>(m) && ...);
  const Shape of_parts = by_row ? Shape{tiling.shape.rows, tiling.blocks_across}
                                : Shape{1, std::size_t{tiling.blocks()}};
  const bool one = of_parts.cols == 1;
  Part* const parts = one ? nullptr : Kernels::template workspace<Part>(of_parts.size());
  const bool has_short_rows = by_row && tiling.rows_apart() < shape.rows;
  Kernels::reduce(FoldKernel<Out, V, Combine, F, n>{tiling, aligned, by_row, has_short_rows, parts,
                                                    out, init, combine, f},
                  m...);
  if (one) return;
  Tiling last = row_tiling(of_parts, 1);
  last.blocks_across = 1;
  Kernels::reduce(FoldKernel<Out, V, Combine, Itself, 1>{last, false, true, false, nullptr, out,
                                                         init, combine, Itself{}},
                  MatrixView<const Part>{parts, of_parts});
}

/// The fold over all elements, once it is computed.
/// @pre there are elements
template <class Kernels, class V, class Combine, class F, class... T>
[[nodiscard]] V fold_all(Shape shape, V init, Combine combine, F f, MatrixView<T>... m)
{
  V* const result = Kernels::template result<V>();
  fold_to<Kernels>(MatrixView<V>{result, {1, 1}}, false, shape, init, combine, f, m...);
  return Kernels::read(result);
}

}  // namespace cubist::CUBIST_ABI::detail
