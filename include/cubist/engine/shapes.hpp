// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks of the shapes of operands.

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// The sizes of C = op(A) op(B).
/// @throws ShapeError unless the shapes fit
[[nodiscard]] inline ProductSize product_size(Op op_a, Shape a, Op op_b, Shape b, Shape c)
{
  const Shape x = op_shape(op_a, a);
  const Shape y = op_shape(op_b, b);
  require<ShapeError>(x.rows == c.rows && y.cols == c.cols && x.cols == y.rows, "gemm got ", x,
                      " times ", y, " for a result of ", c,
                      ", so the sizes do not fit; check the order of the operands");
  return {.m = c.rows, .n = c.cols, .k = x.cols};
}

/// @throws ShapeError unless the operand has the shape `wanted`
inline void require_shape(Shape operand, Shape wanted)
{
  require<ShapeError>(
      operand == wanted, "got an operand of ", operand, " where one of ", wanted,
      " is needed, so some elements would not correspond; pass blocks of equal shapes");
}

}  // namespace cubist::CUBIST_ABI
