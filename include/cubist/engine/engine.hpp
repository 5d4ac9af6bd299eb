// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The concept of an engine, which allocates a rank's memory and computes on it. An engine is cheap
// to copy and works on views of its own memory. It maps small functions without side effects, which
// run on a device, too (core/host_device.hpp). 16-bit elements are passed to them as floats
// (engine/widened.hpp) and summed in float; a device passes complex elements as Complex
// (core/complex.hpp).

#include <concepts>
#include <cstddef>
#include <cstdint>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI
{

/// op(A): A itself, its transpose, or its conjugate transpose.
enum class Op : std::uint8_t
{
  none,       ///< A
  transpose,  ///< A^T
  adjoint     ///< A^H
};

/// The shape of op(A) for A of shape `s`.
[[nodiscard]] constexpr Shape op_shape(bool transposed, Shape s)
{
  return transposed ? Shape{s.cols, s.rows} : s;
}
[[nodiscard]] constexpr Shape op_shape(Op op, Shape s) { return op_shape(op != Op::none, s); }

/// Rows that are summed, in an engine's memory: row targets[l] of the result is the sum of the rows
/// of list l, which are rows[k] for k in [starts[l], starts[l + 1]).
struct RowLists
{
  std::size_t count = 0;  ///< the number of lists
  /// Of each list, the index of its first row in `rows`; count + 1 numbers.
  const int* starts = nullptr;
  const int* rows = nullptr;
  const int* targets = nullptr;  // none twice
};

// clang-format off
template <class E>
concept Engine = std::copyable<E> && std::default_initializable<E> &&
                 requires(E e, MatrixView<double> out, MatrixView<const double> in, double alpha,
                          void (*write)(double&, double&, double), double (*f)(double),
                          double (*at)(std::size_t, std::size_t, double),
                          double (*(*of_row)(std::size_t))(double),
                          double (*combine)(double, double),
                          detail::ValueAndTerm<double, double> (*both)(std::size_t, std::size_t,
                                                                       double),
                          const RowLists& lists) {
                   typename E::template Buffer<double>;  // (n): n zeros; data(), size()
                   // out = alpha op(in) op(in) + beta out
                   e.gemm(Op::none, Op::transpose, alpha, in, in, alpha, out);
                   e.copy(in, out);
                   e.fill(out, alpha);
                   e.upload(in, out);    // from host memory
                   e.download(in, out);  // to host memory
                   // f(m(i, j), …), which may write to elements that are not const
                   e.for_each(write, out, out, in);
                   // out(i, j) = f(in(i, j), …), or f(i, j, in(i, j), …)
                   e.map(out, f, in);
                   e.map_indexed(out, at, in);
                   // out(i, j) = f(i)(in(i, j), …)
                   e.map_rows(out, of_row, in);
                   // map(out, f, in…), and sums(0, j) = sum over i of out(i, j)
                   e.map_sums(out, out, f, in);
                   // out(0, j) = sum over i of in(i, j)
                   e.column_sums(in, out);
                   // out(targets[l], :) = the sum of the rows of `in` in list l, or += that sum,
                   // which is complete and rounded before it is added
                   e.sum_rows(in, lists, out, false);
                   // out(i, 0) = init combined with f(i, j, in(i, j), …) for all j, in an order
                   // that is the same on every run
                   e.row_fold(out, alpha, combine, at, in);
                   // the same over all rows and columns, returned to the host
                   { e.fold(alpha, combine, at, in) } -> std::same_as<double>;
                   // the same of the terms, and out(i, j) = the value, of what f returns
                   { e.map_fold(alpha, combine, out, both, in) } -> std::same_as<double>;
                   e.view(out);  // what `local()` returns to users
                 };
// clang-format on

/// Whether engine `E` has its memory on the host, where communicators and programs may access it.
template <class E>
inline constexpr bool in_host_memory = true;

/// Bytes at multiples of which rows of a matrix should begin, so that products on engine `E` are
/// fast. A matrix whose columns nobody chose (a vocabulary) is padded to it.
template <class E>
inline constexpr std::size_t row_alignment = 1;

}  // namespace cubist::CUBIST_ABI
