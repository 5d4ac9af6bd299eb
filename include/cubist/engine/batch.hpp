// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Batches of products of one size, C[i] = alpha A[i] B[i] + beta C[i], for engines that compute
// them in one call (MultipliesBatches in engine/engine.hpp).

#include <span>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Collects products, and computes them in one call.
template <Scalar T>
class ProductBatch
{
 public:
  void clear()
  {
    a_.clear();
    b_.clear();
    c_.clear();
  }

  /// @pre the operands are stored like the previous products' operands
  void add(Operand<const T> a, Operand<const T> b, Operand<T> c)
  {
    // C^T = B^T A^T
    if (c.transposed()) return add(b.t(), a.t(), c.t());
    op_a_ = a.op();
    op_b_ = b.op();
    a_.push_back(a.stored());
    b_.push_back(b.stored());
    c_.push_back(c.stored());
  }

  /// Computes C = alpha A B + beta C for every product.
  /// @throws ShapeError unless the shapes fit, and are the same for all products
  template <MultipliesBatches<T> E>
  void multiply(const E& engine, T alpha, T beta) const
  {
    if (!c_.empty())
      engine.gemm_batch(op_a_, op_b_, alpha, std::span{a_}, std::span{b_}, beta, std::span{c_});
  }

 private:
  Op op_a_ = Op::none;
  Op op_b_ = Op::none;
  std::vector<MatrixView<const T>> a_;
  std::vector<MatrixView<const T>> b_;
  std::vector<MatrixView<T>> c_;
};

}  // namespace cubist::CUBIST_ABI::detail
