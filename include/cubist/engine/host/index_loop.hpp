// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's loops over elements with their indices, and the loops that copy, fill and sum row by
// row. They are functions that are not inline, so that the compiled library can contain them.

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <class T>
struct RowLoops
{
  /// out = in
  static void copy(MatrixView<const T> in, MatrixView<T> out);
  /// out(i, j) = value
  static void fill(MatrixView<T> out, T value);
};

template <class T>
void RowLoops<T>::copy(MatrixView<const T> in, MatrixView<T> out)
{
  for (std::size_t i = 0; i < out.rows(); ++i) std::copy_n(in.row(i), out.cols(), out.row(i));
}
template <class T>
void RowLoops<T>::fill(MatrixView<T> out, T value)
{
  for (std::size_t i = 0; i < out.rows(); ++i) std::fill_n(out.row(i), out.cols(), value);
}

template <class T>
struct ColumnSums
{
  /// sums[j] += sum of in(i, j) over i, in order of i
  static void run(MatrixView<const T> in, Accumulator<T>* sums);
};

template <class T>
void ColumnSums<T>::run(MatrixView<const T> in, Accumulator<T>* sums)
{
  for (std::size_t i = 0; i < in.rows(); ++i)
  {
    const T* x = in.row(i);
    for (std::size_t j = 0; j < in.cols(); ++j) sums[j] += x[j];
  }
}

template <class T, class F, class... In>
struct IndexLoop
{
  /// out(i, j) = f(i, j, in(i, j), …)
  static void run(MatrixView<T> out, F f, MatrixView<In>... in);
};

template <class T, class F, class... In>
void IndexLoop<T, F, In...>::run(MatrixView<T> out, F f, MatrixView<In>... in)
{
  for (std::size_t i = 0; i < out.rows(); ++i)
    for (std::size_t j = 0; j < out.cols(); ++j) out(i, j) = element_of(f(i, j, wide(in(i, j))...));
}

template <class T, class Combine, class F, class First, class... In>
struct FoldLoop
{
  /// Returns init combined with f(i, j, in(i, j), …) for all elements, row by row.
  static T run(T init, Combine combine, F f, MatrixView<First> first, MatrixView<In>... in);
};

template <class T, class Combine, class F, class First, class... In>
T FoldLoop<T, Combine, F, First, In...>::run(T init, Combine combine, F f, MatrixView<First> first,
                                             MatrixView<In>... in)
{
  Accumulator<T> all = init;
  for (std::size_t i = 0; i < first.rows(); ++i)
    for (std::size_t j = 0; j < first.cols(); ++j)
      all = combine(all, f(i, j, wide(first(i, j)), wide(in(i, j))...));
  return all;
}

template <class V, class Combine, class T, class F, class First, class... In>
struct MapFoldLoop
{
  /// Sets out(i, j) to the value that f returns, and folds the terms that it returns
  /// (ValueAndTerm).
  static V run(V init, Combine combine, MatrixView<T> out, F f, MatrixView<First> first,
               MatrixView<In>... in);
};

template <class V, class Combine, class T, class F, class First, class... In>
V MapFoldLoop<V, Combine, T, F, First, In...>::run(V init, Combine combine, MatrixView<T> out, F f,
                                                   MatrixView<First> first, MatrixView<In>... in)
{
  Accumulator<V> all = init;
  for (std::size_t i = 0; i < first.rows(); ++i)
    for (std::size_t j = 0; j < first.cols(); ++j)
    {
      const auto both = f(i, j, wide(first(i, j)), wide(in(i, j))...);
      out(i, j) = element_of(both.value);
      all = combine(all, both.term);
    }
  return all;
}

}  // namespace cubist::CUBIST_ABI::detail
