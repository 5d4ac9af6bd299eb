// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's loops over weights stored as StoredWeights::q8, compiled and vectorised for several
// instruction sets like the loop over elements (element_loop.hpp).
//
//   Y (m, n) = X (m, padded) W,    W's column j is row j in memory (engine/stored_weight.hpp)
//
// Where the processor has suitable instructions, stored_rows.hpp multiplies rows of float.
// Otherwise four rows of W at a time are read once for all rows of X. Each scalar product is summed
// in 32 parts: part p sums the elements p, p + 32, …, and then the second half of the parts is
// added to the first half until one part is left. So a result depends only on its two rows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/host/stored_rows.hpp"
#include "cubist/engine/host/targets.hpp"
#include "cubist/engine/stored_weight.hpp"

#if defined __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"
#endif

namespace cubist::CUBIST_ABI::detail
{

/// The number of blocks whose scales are converted at once.
inline constexpr std::size_t q8_scales = 64;

/// Computes the scalar products of row x and `count` rows of W, starting at row j.
template <std::size_t count, class T>
[[gnu::always_inline]] inline void q8_products(const T* x, const StoredView& w, std::size_t j, T* y)
{
  alignas(64) std::array<std::array<T, q8_block>, count> part{};
  alignas(64) std::array<std::array<T, q8_scales>, count> scale;
  const std::size_t blocks = w.padded / q8_block;
  const std::int8_t* const q = w.integers().row(j);
  const half* const d = w.scales_of_blocks().row(j);
  for (std::size_t begin = 0; begin < blocks; begin += q8_scales)
  {
    const std::size_t some = std::min(q8_scales, blocks - begin);
    for (std::size_t r = 0; r < count; ++r)
    {
      CUBIST_INDEPENDENT
      for (std::size_t b = 0; b < some; ++b)
        scale[r][b] = static_cast<float>(d[r * blocks + begin + b]);
    }
    for (std::size_t b = 0; b < some; ++b)
    {
      const std::size_t at = (begin + b) * q8_block;
      for (std::size_t r = 0; r < count; ++r)
      {
        const std::int8_t* const row = q + r * w.padded + at;
        constexpr std::size_t line = 64, ahead = 2048;
        if (b % (line / q8_block) == 0) __builtin_prefetch(row + ahead);
        const T factor = scale[r][b];
        CUBIST_INDEPENDENT
        for (std::size_t p = 0; p < q8_block; ++p)
          part[r][p] += factor * (static_cast<T>(row[p]) * x[at + p]);
      }
    }
  }
  for (std::size_t r = 0; r < count; ++r)
  {
    for (std::size_t half = q8_block / 2; half > 0; half /= 2)
      for (std::size_t p = 0; p < half; ++p) part[r][p] += part[r][p + half];
    y[j + r] = part[r][0];
  }
}

/// Computes Y = X W.
struct MultiplyQ8
{
  template <class T>
  [[gnu::always_inline]] void operator()(MatrixView<const T> x, const StoredView& w,
                                         MatrixView<T> y) const
  {
    constexpr std::size_t together = 4;
    std::size_t j = 0;
    for (; j + together <= w.n; j += together)
      for (std::size_t i = 0; i < x.rows(); ++i) q8_products<together>(x.row(i), w, j, y.row(i));
    for (; j < w.n; ++j)
      for (std::size_t i = 0; i < x.rows(); ++i) q8_products<1>(x.row(i), w, j, y.row(i));
  }
};

/// Sets out(j, l) to element begin + l, counted as stored, of W's column first_row + j.
/// @pre begin is a multiple of 32
struct WidenQ8
{
  template <class T>
  [[gnu::always_inline]] void operator()(const StoredView& w, std::size_t first_row,
                                         std::size_t begin, MatrixView<T> out) const
  {
    for (std::size_t j = 0; j < out.rows(); ++j)
    {
      const std::int8_t* const q = w.integers().row(first_row + j) + begin;
      const half* const d = w.scales_of_blocks().row(first_row + j) + begin / q8_block;
      for (std::size_t l = 0; l < out.cols(); l += q8_block)
      {
        const T factor = static_cast<float>(d[l / q8_block]);
        T* const to = out.row(j) + l;
        CUBIST_INDEPENDENT
        for (std::size_t p = 0; p < q8_block; ++p) to[p] = factor * static_cast<T>(q[l + p]);
      }
    }
  }
};

/// The loops as functions that are not inline, so that the compiled library can contain them.
template <class T>
struct Q8Rows
{
  /// Computes Y = X W, on a target that this processor supports.
  /// @pre x has w.padded columns, which are 0 before w.first and from w.first + w.k on
  static void multiply(Target target, MatrixView<const T> x, const StoredView& w, MatrixView<T> y);
  /// Sets out(j, l) to element begin + l, counted as stored, of W's column first_row + j.
  /// @pre begin and out.cols() are multiples of 32
  static void widen(Target target, const StoredView& w, std::size_t first_row, std::size_t begin,
                    MatrixView<T> out);
};

template <class T>
void Q8Rows<T>::multiply(Target target, MatrixView<const T> x, const StoredView& w, MatrixView<T> y)
{
  if constexpr (std::is_same_v<T, float>)
  {
    const StoredRows<std::int8_t> rows{w.integers(), w.scales_of_blocks()};
    if (!multiply_rows<float>(target, 1, x, rows, 0, y)) call_as_compiled(MultiplyQ8{}, x, w, y);
  }
  else
    call_on(target, MultiplyQ8{}, x, w, y);
}

template <class T>
void Q8Rows<T>::widen(Target target, const StoredView& w, std::size_t first_row, std::size_t begin,
                      MatrixView<T> out)
{
  call_on(target, WidenQ8{}, w, first_row, begin, out);
}

}  // namespace cubist::CUBIST_ABI::detail

#if defined __clang__
#pragma clang diagnostic pop
#endif
