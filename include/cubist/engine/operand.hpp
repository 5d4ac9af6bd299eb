// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An operand op(A) of a product, where A is a matrix in memory. Its blocks are blocks of op(A), so
// an algorithm need not know whether its matrices are stored transposed.

#include <cstddef>
#include <utility>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

template <class T>
class Operand
{
 public:
  Operand() = default;
  /// Makes an operand op(`stored`).
  Operand(MatrixView<T> stored, Op op = Op::none)
      : stored_{stored},
        transposed_{op != Op::none},
        conjugated_{op == Op::adjoint && ComplexScalar<std::remove_cv_t<T>>}
  {
  }

  /// Returns a read-only view of the same operand.
  operator Operand<const T>() const requires(!std::is_const_v<T>)
  {
    return Operand<const T>{stored_}.like(transposed_, conjugated_);
  }

  /// The matrix in memory.
  [[nodiscard]] MatrixView<T> stored() const { return stored_; }
  /// Whether the product reads the transpose of the stored matrix.
  [[nodiscard]] bool transposed() const { return transposed_; }
  [[nodiscard]] Shape shape() const { return op_shape(transposed_, stored_.shape()); }
  [[nodiscard]] std::size_t rows() const { return shape().rows; }
  [[nodiscard]] std::size_t cols() const { return shape().cols; }

  /// The operation that BLAS applies to the stored matrix.
  /// @throws ArgumentError for a conjugate that is not transposed
  [[nodiscard]] Op op() const
  {
    require<ArgumentError>(transposed_ || !conjugated_,
                           "got the gradient of an adjoint operand, which would need a product "
                           "with a conjugate that BLAS does not have; conjugate the operand first");
    if (!transposed_) return Op::none;
    return conjugated_ ? Op::adjoint : Op::transpose;
  }

  /// Rows [i, i + rows) and columns [j, j + cols) of op(A).
  [[nodiscard]] Operand block(std::size_t i, std::size_t j, Shape shape) const
  {
    if (transposed_) std::swap(i, j);
    return with(stored_.block(i, j, op_shape(transposed_, shape)));
  }

  /// The transpose of op(A).
  [[nodiscard]] Operand t() const { return Operand{*this}.like(!transposed_, conjugated_); }

  /// Returns an operand that applies the same operation to another matrix.
  template <class U>
  [[nodiscard]] Operand<U> with(MatrixView<U> stored) const
  {
    return Operand<U>{stored}.like(transposed_, conjugated_);
  }

 private:
  template <class U>
  friend class Operand;

  Operand& like(bool transposed, bool conjugated)
  {
    transposed_ = transposed;
    conjugated_ = conjugated;
    return *this;
  }

  MatrixView<T> stored_;
  bool transposed_ = false;
  bool conjugated_ = false;
};

/// Computes C = alpha A B + beta C.
/// @throws ShapeError unless the shapes fit
template <Engine E, Scalar T>
void multiply(const E& engine, T alpha, Operand<const T> a, Operand<const T> b, T beta,
              Operand<T> c)
{
  if (!c.transposed())
    return engine.gemm(a.op(), b.op(), alpha, a.stored(), b.stored(), beta, c.stored());
  // C^T = B^T A^T
  engine.gemm(b.t().op(), a.t().op(), alpha, b.stored(), a.stored(), beta, c.stored());
}

}  // namespace cubist::CUBIST_ABI
