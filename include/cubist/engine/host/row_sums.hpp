// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sums listed rows of a matrix into one row, on the host. A list of one row is copied.

#include <algorithm>
#include <array>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// How many columns of a list are summed at a time, on the stack.
inline constexpr std::size_t summed_columns = 256;

/// to[j] += in(i, first + j) for j in [0, n)
template <class Sum, class T>
void add_row(MatrixView<const T> in, int i, std::size_t first, std::size_t n, Sum* to)
{
  for_elements(n, on_widened<Sum, const T>(Add{}), to, in.row(static_cast<std::size_t>(i)) + first);
}

/// Sets `to` to the sum of the rows of `in` that [row, end) lists, in this order, rounded once to
/// T. With `adds`, adds the rounded sum to `to`, so that the result has the same bits as a sum that
/// another rank computed and sent. 16-bit elements are summed in float.
template <Scalar T>
void sum_listed_rows(MatrixView<const T> in, const int* row, const int* end, T* to, bool adds)
{
  const std::size_t n = in.cols();
  if (row == end)
  {
    if (!adds) std::fill_n(to, n, T{});
    return;
  }
  if (end - row == 1)
  {
    if (adds) return add_row(in, *row, 0, n, to);
    return static_cast<void>(std::copy_n(in.row(static_cast<std::size_t>(*row)), n, to));
  }
  std::array<Accumulator<T>, summed_columns> sum;
  std::array<T, summed_columns> rounded;
  for (std::size_t first = 0; first < n; first += summed_columns)
  {
    const std::size_t count = std::min(summed_columns, n - first);
    std::copy_n(in.row(static_cast<std::size_t>(*row)) + first, count, sum.begin());
    for (const int* next = row + 1; next != end; ++next)
      add_row(in, *next, first, count, sum.data());
    std::copy_n(sum.begin(), count, adds ? rounded.data() : to + first);
    if (adds)
      for_elements(count, on_widened<T, const T>(Add{}), to + first,
                   static_cast<const T*>(rounded.data()));
  }
}

}  // namespace cubist::CUBIST_ABI::detail
