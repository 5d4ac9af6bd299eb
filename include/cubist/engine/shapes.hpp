// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks of the shapes of operands.

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns the sizes of C = op(A) op(B).
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

/// Returns the sizes of C = op(A) op(A)^T.
/// @throws ShapeError unless the shapes fit
[[nodiscard]] inline ProductSize syrk_size(Op op, Shape a, Shape c)
{
  const Shape x = op_shape(op, a);
  require<ShapeError>(x.rows == c.rows && x.rows == c.cols, "syrk got ", x,
                      " times its transpose for a result of ", c,
                      ", so the sizes do not fit; give the result as many rows and columns as the "
                      "operand has rows");
  return {.m = c.rows, .n = c.cols, .k = x.cols};
}

/// Checks a factor A of which only one triangle is read; `b` is the shape of the other factor.
/// @throws ShapeError unless A is square and as large as the side of `b` that it multiplies
inline void require_square_factor(Side side, Shape a, Shape b)
{
  const std::size_t n = side == Side::left ? b.rows : b.cols;
  require<ShapeError>(a.rows == n && a.cols == n, "got a matrix of ", a, " on the ",
                      side == Side::left ? "left" : "right", " of one of ", b,
                      ", so the sizes do not fit; pass a square matrix with ", n, " rows");
}

namespace detail
{

/// Returns the part of row i of a square matrix that lies in a triangle.
template <class T>
[[nodiscard]] MatrixView<T> row_of(Triangle triangle, MatrixView<T> m, std::size_t i)
{
  return triangle == Triangle::lower ? m.block(i, 0, {1, i + 1}) : m.block(i, i, {1, m.cols() - i});
}

}  // namespace detail

/// Checks the shape of an operand.
/// @throws ShapeError unless the operand has the shape `wanted`
inline void require_shape(Shape operand, Shape wanted)
{
  require<ShapeError>(
      operand == wanted, "got an operand of ", operand, " where one of ", wanted,
      " is needed, so some elements would not correspond; pass blocks of equal shapes");
}

}  // namespace cubist::CUBIST_ABI
