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

namespace cubist::CUBIST_ABI::detail
{

/// C = alpha op(A) op(B) + beta C; C is not read when beta is 0.
/// @throws what the engine's product of floats throws
template <class E, ShortReal T>
void gemm_in_float(const E& engine, Op op_a, Op op_b, T alpha, MatrixView<const T> a,
                   MatrixView<const T> b, T beta, MatrixView<T> c)
{
  // Kept for the thread's next product.
  static thread_local std::array<typename E::template Buffer<float>, 3> buffers;
  const auto reserve = [](auto& buffer, Shape shape) {
    if (buffer.size() < shape.size()) buffer.resize(shape.size());
    return MatrixView<float>{buffer.data(), shape};
  };
  const auto wide_a = reserve(buffers[0], a.shape());
  const auto wide_b = reserve(buffers[1], b.shape());
  const auto wide_c = reserve(buffers[2], c.shape());
  engine.map(wide_a, Same{}, a);
  engine.map(wide_b, Same{}, b);
  if (beta != T{}) engine.map(wide_c, Same{}, c);
  engine.template gemm<float>(op_a, op_b, alpha, wide_a, wide_b, beta, wide_c);
  engine.map(c, Same{}, wide_c);
}

}  // namespace cubist::CUBIST_ABI::detail
