// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A batch of distributed products, on any scheme and backend.
//
//   X (B, M, K) each S::Input    W (B, K, N) or (K, N) S::Weight    Y (B, M, N) each S::Output
//
// The batch is cut over groups of ranks. A weight that all products share has a replica in each
// group, and its gradient is summed over the groups.
//
// Elements that one rank sends: what the scheme sends, for each product of the rank's group. The
// gradient of a shared weight adds 2(g-1)/g of a rank's block, for g groups. A shared weight is
// sent again for every product. If it is large, use one product with B M rows (DistMatMul), which
// sends it once.
// Source: MindSpore, High Dimension Tensor Parallel (BatchMatMul).

#include <cstddef>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/batch.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/dist_batch.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/scheme/batch_mesh.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The sizes of a batch of products: (b, m, k) times (b, k, n) gives (b, m, n).
struct BatchSize
{
  std::size_t b = 0;  ///< the number of products in the batch
  std::size_t m = 0;  ///< the rows of X and Y
  std::size_t n = 0;  ///< the columns of W and Y
  std::size_t k = 0;  ///< the columns of X, and rows of W
};

/// A plan for batches of one size. Every rank makes the plan and calls it.
/// @throws ShapeError from every call, for a wrong number of matrices or matrices of wrong sizes
/// @tparam op_x, op_w the operations on the matrices that are passed; see DistMatMul
template <SchemeType S, class B, Scalar T, Op op_x = Op::none, Op op_w = Op::none>
class DistBatchMatMul
{
 public:
  /// One product of the batch.
  using Product = DistMatMul<S, B, T, op_x, op_w>;
  using Mesh = AxisBatchMesh<typename S::Axes, B>;
  using Input = DistBatch<T, typename Product::Input::Layout, Mesh>;
  using Weight = DistBatch<T, typename Product::Weight::Layout, Mesh>;
  using Output = DistBatch<T, typename Product::Output::Layout, Mesh>;
  /// A weight that all products of the batch share.
  using SharedWeight = typename Product::Weight;

  /// Makes a plan for products of one size; collective.
  DistBatchMatMul(const Mesh& mesh, BatchSize size, Gathered policy = Gathered::again,
                  Method requested = Method::automatic)
      : mesh_{mesh},
        batch_{size.b},
        product_{mesh.group(), {size.m, size.n, size.k}, policy, requested}
  {
  }

  /// Computes Y = alpha op(X) op(W) + beta Y for each matrix of the batch. W is a batch, or shared.
  template <class LX, class W, class LY>
  void forward(const DistBatch<T, LX, Mesh>& x, const W& w, DistBatch<T, LY, Mesh>& y,
               T alpha = T{1}, T beta = T{})
  {
    check("X", x), check("W", w), check("Y", y);
    detail::require_distinct("Y", &y, {&x, &w});
    const bool done = multiply_batch(x, w, y, alpha, beta, [&](auto& batch, std::size_t i) {
      batch.add({x[i].valid(), op_x}, {matrix_of(w, i).valid(), op_w}, y[i].valid());
    });
    if (done) return;
    for (std::size_t i = 0; i < y.size(); ++i)
      product_.forward(x[i], matrix_of(w, i), y[i], alpha, beta);
  }

  /// Computes dX = alpha dY op(W)^T + beta dX for each matrix of the batch.
  template <class LY, class W, class LX>
  void grad_input(const DistBatch<T, LY, Mesh>& dy, const W& w, DistBatch<T, LX, Mesh>& dx,
                  T alpha = T{1}, T beta = T{})
  {
    check("dY", dy), check("W", w), check("dX", dx);
    detail::require_distinct("dX", &dx, {&dy, &w});
    const bool done = multiply_batch(dx, w, dy, alpha, beta, [&](auto& batch, std::size_t i) {
      batch.add(dy[i].valid(), Factor{matrix_of(w, i).valid(), op_w}.t(), {dx[i].valid(), op_x});
    });
    if (done) return;
    for (std::size_t i = 0; i < dy.size(); ++i)
      product_.grad_input(dy[i], matrix_of(w, i), dx[i], alpha, beta);
  }

  /// Computes dW = alpha op(X)^T dY + beta dW for each matrix of the batch.
  template <class LX, class LY, class LW>
  void grad_weight(const DistBatch<T, LX, Mesh>& x, const DistBatch<T, LY, Mesh>& dy,
                   DistBatch<T, LW, Mesh>& dw, T alpha = T{1}, T beta = T{})
  {
    check("X", x), check("dY", dy), check("dW", dw);
    detail::require_distinct("dW", &dw, {&x, &dy});
    const bool done = multiply_batch(x, dw, dy, alpha, beta, [&](auto& batch, std::size_t i) {
      batch.add(Factor{x[i].valid(), op_x}.t(), dy[i].valid(), {dw[i].valid(), op_w});
    });
    if (done) return;
    for (std::size_t i = 0; i < dy.size(); ++i)
      product_.grad_weight(x[i], dy[i], dw[i], alpha, beta);
  }

  /// Computes dW = alpha (sum of op(X)^T dY over the batch) + beta dW, complete in every group.
  template <class LX, class LY, class LW>
  void grad_weight(const DistBatch<T, LX, Mesh>& x, const DistBatch<T, LY, Mesh>& dy,
                   DistMatrix<T, LW, typename Mesh::Group>& dw, T alpha = T{1}, T beta = T{})
  {
    check("X", x), check("dY", dy);
    // Only one group adds beta dW to the sum over the groups.
    const T first = mesh_.index() == 0 ? beta : T{};
    const auto block = dw.valid();
    const auto& engine = mesh_.group().engine();
    if (dy.size() == 0 && first == T{}) engine.fill(block, T{});
    if (dy.size() == 0 && first != T{})
      engine.map(block, detail::Scaled<T>{first}, MatrixView<const T>{block});
    for (std::size_t i = 0; i < dy.size(); ++i)
      product_.grad_weight(x[i], dy[i], dw, alpha, i == 0 ? first : T{1});
    if (mesh_.groups() > 1) mesh_.across().all_reduce(dw.padded().elements());
  }

 private:
  using Factor = Operand<const T>;

  /// Computes all products in one call of the engine, if each group is one rank and the engine can
  /// do so.
  /// @returns false if it computed nothing
  template <class X, class W, class Y, class Add>
  bool multiply_batch(const X& x, const W& w, const Y& y, T alpha, T beta, Add add)
  {
    using Engine = typename B::Engine;
    if constexpr (detail::MultipliesBatches<Engine, T>)
      if (mesh_.group().size() == 1)
      {
        batch_products_.clear();
        for (std::size_t i = 0; i < y.size(); ++i)
        {
          product_.require_operands(x[i], matrix_of(w, i), y[i]);
          add(batch_products_, i);
        }
        batch_products_.multiply(mesh_.group().engine(), alpha, beta);
        return true;
      }
    return false;
  }

  template <class L>
  static const auto& matrix_of(const DistBatch<T, L, Mesh>& w, std::size_t i)
  {
    return w[i];
  }
  template <class L>
  static const auto& matrix_of(const DistMatrix<T, L, typename Mesh::Group>& w, std::size_t)
  {
    return w;
  }

  template <class L>
  void check(const char* what, const DistBatch<T, L, Mesh>& x) const
  {
    require<ShapeError>(x.batch() == batch_ && x.mesh().groups() == mesh_.groups(), "got ", what,
                        " of ", x.batch(), " matrices in ", x.mesh().groups(),
                        " groups for a batch of ", batch_, " products in ", mesh_.groups(),
                        " groups, so some products would lack an operand; make the plan for this "
                        "batch, or the batch for this plan, and share W if there is only one");
  }
  template <class L>
  void check(const char*, const DistMatrix<T, L, typename Mesh::Group>&) const
  {
  }

  Mesh mesh_;
  std::size_t batch_;
  Product product_;
  detail::ProductBatch<T> batch_products_;
};

}  // namespace cubist::CUBIST_ABI
