// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The interface of the three algorithms that multiply: SUMMA (summa/), gather-multiply-scatter
// (gather/) and the direct product (direct/). A plan is made for one size and owns its workspace.
// It sees only this rank's padded blocks. Its type depends on nothing but the scalar, so DistMatMul
// is compiled without the code of the algorithm.

#include <cstddef>

#include "cubist/algorithm/options.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// The shapes of one rank's padded blocks of op(X), op(W) and Y. A plan is made for these.
struct LocalShapes
{
  Shape x;  ///< the shape of this rank's block of X
  Shape w;  ///< the shape of this rank's block of W
  Shape y;  ///< the shape of this rank's block of Y
};

/// The products of one layer; X and W stand for op(X) and op(W). Every rank of the mesh calls them
/// in the same order.
template <Scalar T>
class ProductPlan
{
 public:
  /// A block that is read.
  using In = MatrixView<const T>;
  /// A block that is written.
  using Out = MatrixView<T>;

  ProductPlan() = default;
  ProductPlan(const ProductPlan&) = delete;
  ProductPlan& operator=(const ProductPlan&) = delete;
  virtual ~ProductPlan() = default;

  /// Computes Y = alpha X W + beta Y.
  virtual void forward(T alpha, In x, In w, T beta, Out y) = 0;

  /// Computes dX = alpha dY W^T + beta dX.
  virtual void grad_input(T alpha, In dy, In w, T beta, Out dx) = 0;

  /// Computes dW = alpha X^T dY + beta dW. If W has replicas, the direct product completes the sum
  /// over them; SUMMA and gather-multiply-scatter leave each replica with its term.
  virtual void grad_weight(T alpha, In x, In dy, T beta, Out dw) = 0;

  /// Computes dX = dY W^T and dW = X^T dY + beta dW. A plan that keeps gathered operands reads
  /// those of the last `forward`.
  virtual void backward(In x, In w, In dy, Out dx, Out dw, T beta) = 0;

  /// Computes dX as `backward` does, without dW: for a weight that is not trained.
  virtual void backward_input(In w, In dy, Out dx) { grad_input(T{1}, dy, w, T{}, dx); }

  /// Computes dW as `backward` does, without dX.
  virtual void backward_weight(In x, In dy, Out dw, T beta) { grad_weight(T{1}, x, dy, beta, dw); }

  /// The size of this rank's workspace, in bytes.
  [[nodiscard]] virtual std::size_t workspace_bytes() const { return 0; }
  /// Frees the workspace, including gathered operands that are kept. A later call allocates what it
  /// needs again.
  virtual void release_workspace() {}
};

}  // namespace cubist::CUBIST_ABI
