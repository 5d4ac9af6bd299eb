// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The arguments on which the plan of a product of block-cyclic matrices depends.

#include <cstddef>

#include <cubist/core/block.hpp>
#include <cubist/engine/engine.hpp>
#include <cubist/foreign/block_cyclic.hpp>
#include <cubist/foreign/matrix_part.hpp>

namespace cubist::CUBIST_ABI::detail
{

/// The product C (m, n) = op(A) op(B), whose matrices have scalars of one type.
struct ProductArguments
{
  Op op_a = Op::none;
  Op op_b = Op::none;
  ProductSize size;
  SubMatrixPlace a;
  SubMatrixPlace b;
  SubMatrixPlace c;
  /// The part of C that is computed. If it is a triangle, op(B) is the transpose or adjoint of
  /// op(A).
  MatrixPart part = MatrixPart::all;

  /// The number of elements of the sub-matrices A, B and C.
  [[nodiscard]] constexpr std::size_t elements() const
  {
    return size.m * size.k + size.k * size.n + size.m * size.n;
  }

  friend constexpr bool operator==(const ProductArguments&, const ProductArguments&) = default;
};

}  // namespace cubist::CUBIST_ABI::detail
