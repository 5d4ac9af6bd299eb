// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's sum of listed rows of a matrix, into one row. A list of one row is copied.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// to += in(i, :)
template <class Sum, class T>
void add_row(MatrixView<const T> in, int i, Sum* to)
{
  for_elements(in.cols(), on_widened<Sum, const T>(Add{}), to, in.row(static_cast<std::size_t>(i)));
}

/// to = the sum of rows [row, end) of `in`, in this order; with `adds`, of what is there and these.
/// 16-bit elements are summed in float, and rounded once.
template <Scalar T>
void sum_listed_rows(MatrixView<const T> in, const int* row, const int* end, T* to, bool adds)
{
  const std::size_t n = in.cols();
  if (!adds && row == end) return static_cast<void>(std::fill_n(to, n, T{}));
  if (!adds) std::copy_n(in.row(static_cast<std::size_t>(*row++)), n, to);
  if constexpr (ShortReal<T>)
    if (end - row > 1)
    {
      static thread_local std::vector<float> sum;
      sum.assign(to, to + n);
      for (; row != end; ++row) add_row(in, *row, sum.data());
      std::copy(sum.begin(), sum.end(), to);
      return;
    }
  for (; row != end; ++row) add_row(in, *row, to);
}

}  // namespace cubist::CUBIST_ABI::detail
