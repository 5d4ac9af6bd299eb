// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's fold of rows, compiled and vectorised for several instruction sets like the loop over
// elements (element_loop.hpp).
//
// A row is folded in `block_length` parts: part p folds the elements p, p + block_length, …, in
// this order. Then the second half of the parts is combined with the first half until one part is
// left. So the order depends only on the row's length. A row with fewer elements than parts is
// folded from left to right.

#include <array>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/host/targets.hpp"
#include "cubist/engine/widened.hpp"

#if defined __clang__
// clang warns about loops that it cannot vectorise, such as loops over complex and 16-bit numbers.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace cubist::CUBIST_ABI::detail
{

/// Returns init combined with f(j, m[j], …) for j in [0, n).
template <class V, class Combine, class F, class... T>
[[gnu::always_inline]] inline V fold_row(V init, Combine combine, F f, std::size_t n, const T*... m)
{
  if (n < block_length)
  {
    for (std::size_t j = 0; j < n; ++j) init = combine(init, f(j, wide(m[j])...));
    return init;
  }
  alignas(64) std::array<V, block_length> part;
  CUBIST_INDEPENDENT
  for (std::size_t p = 0; p < block_length; ++p) part[p] = f(p, wide(m[p])...);
  std::size_t j = block_length;
  for (; j + block_length <= n; j += block_length)
  {
    CUBIST_INDEPENDENT
    for (std::size_t p = 0; p < block_length; ++p)
      part[p] = combine(part[p], f(j + p, wide(m[j + p])...));
  }
  for (std::size_t p = 0; j < n; ++j, ++p) part[p] = combine(part[p], f(j, wide(m[j])...));
  for (std::size_t half = block_length / 2; half > 0; half /= 2)
    for (std::size_t p = 0; p < half; ++p) part[p] = combine(part[p], part[p + half]);
  return combine(init, part[0]);
}

/// Sets out(i, 0) to init combined with f(i, j, m(i, j), …) for all columns j.
struct FoldAllRows
{
  template <class V, class Out, class Combine, class F, class First, class... T>
  [[gnu::always_inline]] void operator()(MatrixView<Out> out, V init, Combine combine, F f,
                                         MatrixView<First> first, MatrixView<T>... m) const
  {
    for (std::size_t i = 0; i < out.rows(); ++i)
    {
      const auto in_row = [i, f](std::size_t j, const auto&... x) { return f(i, j, x...); };
      out(i, 0) = fold_row(init, combine, in_row, first.cols(), first.row(i), m.row(i)...);
    }
  }
};

/// The fold as a function that is not inline, so that the compiled library can contain it.
template <class V, class Out, class... A>
struct RowFold
{
  /// Sets out(i, 0) to init combined with f(i, j, m(i, j), …) for all columns j, where A is
  /// combine, f, m….
  static void run(Target target, MatrixView<Out> out, V init, A... a);
};

template <class V, class Out, class... A>
void RowFold<V, Out, A...>::run(Target target, MatrixView<Out> out, V init, A... a)
{
  call_on(target, FoldAllRows{}, out, init, a...);
}

/// Sets out(i, 0) to init combined with f(i, j, m(i, j), …) for all columns j, on a target that
/// this processor supports.
template <class V, class Out, class... A>
void fold_rows(Target target, MatrixView<Out> out, V init, A... a)
{
  RowFold<V, Out, A...>::run(target, out, init, a...);
}

}  // namespace cubist::CUBIST_ABI::detail

#if defined __clang__
#pragma clang diagnostic pop
#endif
