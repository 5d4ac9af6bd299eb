// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of 16-bit matrices, which BLAS does not have: operands are converted to float and
// multiplied, and the result is rounded once.

#include <array>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/shapes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A copy in float, in a buffer that is kept for the thread's next product.
/// @param which of the three operands
template <class E, class T>
[[nodiscard]] MatrixView<float> float_copy(const E& engine, std::size_t which, MatrixView<T> m,
                                           bool with_elements = true)
{
  static thread_local std::array<typename E::template Buffer<float>, 3> buffers;
  auto& buffer = buffers[which];
  if (buffer.size() < m.size()) buffer.resize(m.size());
  const MatrixView<float> wide{buffer.data(), m.shape()};
  if (with_elements) engine.map(wide, Same{}, m);
  return wide;
}

/// C = alpha op(A) op(B) + beta C; C is not read when beta is 0.
/// @throws what the engine's product of floats throws
template <class E, ShortReal T>
void gemm_in_float(const E& engine, Op op_a, Op op_b, T alpha, MatrixView<const T> a,
                   MatrixView<const T> b, T beta, MatrixView<T> c)
{
  const MatrixView<const float> wide_a = float_copy(engine, 0, a);
  const MatrixView<const float> wide_b = float_copy(engine, 1, b);
  const auto wide_c = float_copy(engine, 2, MatrixView<const T>{c}, beta != T{});
  engine.template gemm<float>(op_a, op_b, alpha, wide_a, wide_b, beta, wide_c);
  engine.map(c, Same{}, wide_c);
}

/// A triangle of C = alpha op(A) op(A)^T + beta C; the triangle is not read when beta is 0.
/// @throws what the engine's product of floats throws
template <class E, ShortReal T>
void syrk_in_float(const E& engine, Triangle triangle, Op op, T alpha, MatrixView<const T> a,
                   T beta, MatrixView<T> c)
{
  const MatrixView<const float> wide_a = float_copy(engine, 0, a);
  const auto wide_c = float_copy(engine, 2, MatrixView<const T>{c}, beta != T{});
  engine.template syrk<float>(triangle, op, alpha, wide_a, beta, wide_c);
  for (std::size_t i = 0; i < c.rows(); ++i)
    engine.map(row_of(triangle, c, i), Same{}, row_of(triangle, wide_c, i));
}

}  // namespace cubist::CUBIST_ABI::detail
