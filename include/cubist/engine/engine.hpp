// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What an engine is: who owns a rank's memory and computes on it. An engine is cheap to copy, and
// works on views of its own memory; the functions that it maps are small callables without side
// effects, which run on a device, too (core/host_device.hpp). They see elements of 16 bits as
// floats (engine/widened.hpp), and sums of these are made in float.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist
{

/// op(A): A itself, its transpose, or its conjugate transpose.
enum class Op : std::uint8_t
{
  none,
  transpose,
  adjoint
};

[[nodiscard]] constexpr Shape op_shape(bool transposed, Shape s)
{
  return transposed ? Shape{s.cols, s.rows} : s;
}
[[nodiscard]] constexpr Shape op_shape(Op op, Shape s) { return op_shape(op != Op::none, s); }

// clang-format off
template <class E>
concept Engine = std::copyable<E> && std::default_initializable<E> &&
                 requires(E e, MatrixView<double> out, MatrixView<const double> in, double alpha,
                          void (*write)(double&, double&, double), double (*f)(double),
                          double (*at)(std::size_t, std::size_t, double),
                          double (*combine)(double, double)) {
                   typename E::template Buffer<double>;  // (n): n zeros; data(), size()
                   // out = alpha op(in) op(in) + beta out
                   e.gemm(Op::none, Op::transpose, alpha, in, in, alpha, out);
                   e.copy(in, out);
                   e.fill(out, alpha);
                   e.upload(in, out);    // from host memory
                   e.download(in, out);  // to host memory
                   // f(m(i, j), …), which writes to what is not const
                   e.for_each(write, out, out, in);
                   // out(i, j) = f(in(i, j), …), or f(i, j, in(i, j), …)
                   e.map(out, f, in);
                   e.map_indexed(out, at, in);
                   // map(out, f, in…), and sums(0, j) = sum over i of out(i, j)
                   e.map_sums(out, out, f, in);
                   // out(0, j) = sum over i of in(i, j)
                   e.column_sums(in, out);
                   // out(i, 0) = init combined with f(i, j, in(i, j), …) for all j, in an order of
                   // the engine's that is the same on every run
                   e.row_fold(out, alpha, combine, at, in);
                   // the same over all rows and columns, given back to the host
                   { e.fold(alpha, combine, at, in) } -> std::same_as<double>;
                   e.view(out);  // what `local()` gives to users
                 };
// clang-format on

/// Whether the memory of engine `E` is the host's, which communicators and programs may look at.
template <class E>
inline constexpr bool in_host_memory = true;

}  // namespace cubist
