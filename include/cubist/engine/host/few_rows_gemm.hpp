// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's product of a few rows with a large matrix, as for the next token of a text:
//
//   C (m, n) = alpha A (m, k) op(B) + beta C,  m small
//
// B may have 16-bit elements where A and C have float; they are read as they are stored.
//
// Such a product takes as long as it takes to read B from memory. BLAS's gemm first copies B into
// its own order, which pays only if many rows use the copy. Here B is read once, in its order:
//
//   B as it is stored    eight rows of B at a time, times one element of A each, are added to C.
//                        They are far apart, so that eight streams of memory are read in sequence,
//                        which the processor's prefetcher follows, however short the rows are
//   B transposed         each element of C is the scalar product of a row of A and a row of B
//
// Measured: GB/s of B on one core of an EPYC (Zen 5, AVX-512, OpenBLAS 0.3.21); in parentheses
// BLAS's gemm on one and on two threads:
//
//   op(B), k x n                        m = 1            m = 2            m = 4
//   1024 x 4096 float                   37 (13, 25)      29 (13, 18)      19 (15, 13)
//   4096 x 16384 float                  38 (13, 24)      28 (13, 19)      14 (15, 12)
//   1024 x 4096 double                  39 (13, 26)      28 (11, 23)      19 (10, 19)
//   1024 x 50257 float, B transposed    37 (11, 18)      28 (13, 15)      19 (15, 8)
//   1024 x 4096 double, B transposed    40 (14, 26)      33 (11, 23)      29 (11, 19)
//
// With more than two threads, BLAS's gemv multiplies a single row. On two threads it reads 41 to 50
// GB/s of these matrices.

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/host/row_fold_loop.hpp"
#include "cubist/engine/host/stored_rows.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Whether a product of such a size is faster if it reads B only once.
/// @param most_rows the maximum number of rows of A: 16 for 16-bit elements of B, because for up to
/// 16 rows, converting them again for each row takes less time than a copy in float
[[nodiscard]] inline bool has_few_rows(ProductSize s, std::size_t most_rows = 4)
{
  constexpr std::size_t least = 64;                // rows and columns of B
  constexpr std::size_t least_elements = 1 << 16;  // smaller ones fit in caches
  return s.m <= most_rows && s.n >= least && s.k >= least && s.n * s.k >= least_elements;
}

/// Whether a product of one or two rows is faster here although B fits in caches, as the products
/// of attention are for a new token. BLAS's gemm takes 1.4 to 5 times as long, because it copies B.
/// Where the rows of B are shorter in memory, it is faster.
[[nodiscard]] inline bool has_small_rows(Op op_b, ProductSize s)
{
  constexpr std::size_t least = 64;
  return s.m <= 2 && (op_b == Op::none ? s.n : s.k) >= least && s.n * s.k < (1 << 16);
}

/// Whether one core computes a product with a large matrix here at least as fast as BLAS's gemm
/// does on this many threads, where 0 stands for an unknown number.
[[nodiscard]] inline bool is_faster_than_blas(int threads) { return threads == 1 || threads == 2; }

/// y += factor[0] x_0 + factor[1] x_1 + …, one after the other
template <class T, std::size_t count>
struct AddRows
{
  std::array<T, count> factor;

  template <class... X>
  [[gnu::always_inline]] void operator()(T& y, const X&... x) const
  {
    T sum = y;
    std::size_t l = 0;
    ((sum += factor[l++] * wide(x)), ...);
    y = sum;
  }
};

/// The product as functions that are not inline, so that the compiled library can contain them.
/// @tparam W  the elements of B: T, or 16-bit ones
template <class T, class W = T>
struct FewRowsGemm
{
  /// Computes C = alpha A op(B) + beta C; C is not read when beta is 0.
  static void multiply(Op op_b, T alpha, MatrixView<const T> a, MatrixView<const W> b, T beta,
                       MatrixView<T> c);
  /// Computes C += alpha A B.
  static void add(T alpha, MatrixView<const T> a, MatrixView<const W> b, MatrixView<T> c);
  /// Computes C = alpha A B^T + beta C; C is not read when beta is 0.
  static void multiply_transposed(T alpha, MatrixView<const T> a, MatrixView<const W> b, T beta,
                                  MatrixView<T> c);

 private:
  /// Computes C += alpha A B for the rows k + l step of B and the same columns of A.
  template <std::size_t... l>
  static void add(T alpha, MatrixView<const T> a, MatrixView<const W> b, MatrixView<T> c,
                  std::size_t k, std::size_t step, std::index_sequence<l...>)
  {
    for (std::size_t i = 0; i < c.rows(); ++i)
      for_elements(c.cols(), AddRows<T, sizeof...(l)>{{(alpha * a(i, k + l * step))...}}, c.row(i),
                   b.row(k + l * step)...);
  }
};

template <class T, class W>
void FewRowsGemm<T, W>::multiply(Op op_b, T alpha, MatrixView<const T> a, MatrixView<const W> b,
                                 T beta, MatrixView<T> c)
{
  if (op_b != Op::none) return multiply_transposed(alpha, a, b, beta, c);
  for (std::size_t i = 0; i < c.rows(); ++i)
    if (beta == T{})
      std::fill_n(c.row(i), c.cols(), T{});
    else if (beta != T{1})
      for_elements(c.cols(), Assign<Scaled<T>>{{beta}}, c.row(i), static_cast<const T*>(c.row(i)));
  add(alpha, a, b, c);
}

template <class T, class W>
void FewRowsGemm<T, W>::add(T alpha, MatrixView<const T> a, MatrixView<const W> b, MatrixView<T> c)
{
  constexpr std::size_t streams = 8;
  const std::size_t step = b.rows() / streams;
  bool done = false;
  if constexpr (ShortReal<W> && std::is_same_v<T, float>)
    done = add_rows<streams>(best_target(), alpha, a, b, step, c);
  for (std::size_t k = 0; !done && k < step; ++k)
    add(alpha, a, b, c, k, step, std::make_index_sequence<streams>{});
  for (std::size_t k = streams * step; k < b.rows(); ++k)
    for (std::size_t i = 0; i < c.rows(); ++i)
      for_elements(c.cols(),
                   on_widened<T, const T, const W>(Assign<AddScaled<T>>{{alpha * a(i, k)}}),
                   c.row(i), static_cast<const T*>(c.row(i)), b.row(k));
}

template <class T, class W>
void FewRowsGemm<T, W>::multiply_transposed(T alpha, MatrixView<const T> a, MatrixView<const W> b,
                                            T beta, MatrixView<T> c)
{
  constexpr bool has_registers = std::is_same_v<W, T> || (ShortReal<W> && std::is_same_v<T, float>);
  if constexpr (has_registers)
    if (multiply_rows(best_target(), alpha, a, StoredRows<W>{b}, beta, c)) return;
  constexpr std::size_t cached = 32 * 1024;  // bytes of B, which each row of A reads
  constexpr std::size_t most = 64;           // rows of B
  const std::size_t rows =
      std::clamp<std::size_t>(cached / std::max<std::size_t>(b.cols() * sizeof(W), 1), 1, most);
  const auto product = [](std::size_t, std::size_t, auto b_jk, auto a_ik) { return b_jk * a_ik; };
  std::array<T, most> sums;
  for (std::size_t first = 0; first < b.rows(); first += rows)
  {
    const std::size_t count = std::min(rows, b.rows() - first);
    for (std::size_t i = 0; i < c.rows(); ++i)
    {
      const MatrixView<T> to{sums.data(), count, 1, 1};
      const MatrixView<const W> of_b = b.block(first, 0, {count, b.cols()});
      const MatrixView<const T> of_a{a.row(i), count, a.cols(), 0};
      if constexpr (has_registers)  // only targets without these registers come here
        call_as_compiled(FoldAllRows{}, to, T{}, Sum{}, product, of_b, of_a);
      else
        fold_rows(best_target(), to, T{}, Sum{}, product, of_b, of_a);
      T* const out = c.row(i) + first;
      for (std::size_t j = 0; j < count; ++j)
        out[j] = beta == T{} ? alpha * sums[j] : alpha * sums[j] + beta * out[j];
    }
  }
}

}  // namespace cubist::CUBIST_ABI::detail
