// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The distributed product, on any scheme and backend.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y = X W (M, N) S::Output
//
// Words: those of the scheme; see its header.

#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/dist/replica_sum.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

/// A plan for products of one size: it owns its workspace, and allocates nothing after it is made.
/// Every rank of the mesh makes the plan and calls it. X, W and Y must not share memory.
template <Scheme S, class B, Scalar T>
class DistMatMul
{
 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Input = DistMatrix<T, typename S::Input, Mesh>;
  using Weight = DistMatrix<T, typename S::Weight, Mesh>;
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  explicit DistMatMul(const Mesh& mesh, ProductSize size, Gathered policy = Gathered::again)
      : mesh_{mesh}, size_{size}, plan_{mesh,
                                        {padded<typename S::Input>({size.m, size.k}),
                                         padded<typename S::Weight>({size.k, size.n}),
                                         padded<typename S::Output>({size.m, size.n})},
                                        policy}
  {
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] ProductSize size() const { return size_; }

  /// Y = alpha X W + beta Y
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
               DistMatrix<T, LY, Mesh>& y, T alpha = T{1}, T beta = T{})
  {
    check<typename S::Input>("X", x, {size_.m, size_.k});
    check<typename S::Weight>("W", w, {size_.k, size_.n});
    check<typename S::Output>("Y", y, {size_.m, size_.n});
    plan_.forward(alpha, x.padded(), w.padded(), beta, y.padded());
  }

  /// Y = X W, in a new matrix.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW>
  [[nodiscard]] Output forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w)
  {
    Output y{mesh_, {size_.m, size_.n}};
    forward(x, w, y);
    return y;
  }

  /// dX = alpha dY W^T + beta dX; nothing is conjugated.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LY, class LW, class LX>
  void grad_input(const DistMatrix<T, LY, Mesh>& dy, const DistMatrix<T, LW, Mesh>& w,
                  DistMatrix<T, LX, Mesh>& dx, T alpha = T{1}, T beta = T{})
  {
    check<typename S::Output>("dY", dy, {size_.m, size_.n});
    check<typename S::Weight>("W", w, {size_.k, size_.n});
    check<typename S::Input>("dX", dx, {size_.m, size_.k});
    plan_.grad_input(alpha, dy.padded(), w.padded(), beta, dx.padded());
  }

  /// dW = alpha X^T dY + beta dW, complete on every replica; nothing is conjugated.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LY, class LW>
  void grad_weight(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                   DistMatrix<T, LW, Mesh>& dw, T alpha = T{1}, T beta = T{})
  {
    check<typename S::Input>("X", x, {size_.m, size_.k});
    check<typename S::Output>("dY", dy, {size_.m, size_.n});
    check<typename S::Weight>("dW", dw, {size_.k, size_.n});
    plan_.grad_weight(alpha, x.padded(), dy.padded(), counted_once(beta), dw.padded());
    sum_replicas(mesh_, Pending{}, dw.padded()).wait();
  }

  /// dX = dY W^T and dW = X^T dY + beta dW, with fewer words than one after the other.
  /// @pre with Gathered::kept, X and W are those of the last `forward`, and of every call since
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW, class LY, class LDX, class LDW>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LDX, Mesh>& dx,
                DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    start_backward(x, w, dy, dx, dw, beta).wait();
  }

  /// The same; but dW is complete only once what is returned has been waited for, so that the sum
  /// over its replicas, if it has any, travels while other work is done.
  template <class LX, class LW, class LY, class LDX, class LDW>
  [[nodiscard]] ReplicaSum<typename B::Communicator>
  start_backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                 const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LDX, Mesh>& dx,
                 DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    check<typename S::Input>("X", x, {size_.m, size_.k});
    check<typename S::Weight>("W", w, {size_.k, size_.n});
    check<typename S::Output>("dY", dy, {size_.m, size_.n});
    check<typename S::Input>("dX", dx, {size_.m, size_.k});
    check<typename S::Weight>("dW", dw, {size_.k, size_.n});
    plan_.backward(x.padded(), w.padded(), dy.padded(), dx.padded(), dw.padded(),
                   counted_once(beta));
    return sum_replicas(mesh_, Pending{}, dw.padded());
  }

 private:
  // Replicas of W see other rows of X and dY, so each has only a part of the sum over M.
  using Pending = typename PendingAxes<typename S::Weight, typename S::Output::RowAxes>::type;

  template <class L>
  [[nodiscard]] Shape padded(Shape global) const
  {
    return L::template block<typename S::Axes>(global, mesh_.extents(), mesh_.coordinates(),
                                               mesh_.quantum())
        .padded();
  }

  template <class Wanted, class L>
  void check(const char* what, const DistMatrix<T, L, Mesh>& m, Shape wanted) const
  {
    detail::require_layout<L, Wanted>();
    require<ShapeError>(m.shape() == wanted, "got ", what, " of ", m.shape(),
                        " for a product with m = ", size_.m, ", n = ", size_.n, ", k = ", size_.k,
                        ", where it is ", wanted,
                        ", so the inner sizes do not fit; make the plan for these matrices, or the "
                        "matrices for this plan");
    require<MeshError>(
        m.mesh() == mesh_, "got ", what, " of ", m.shape(),
        " on another mesh than the product's, so its blocks lie on other ranks; make "
        "it on the product's mesh");
  }

  /// beta on one of the replicas that are summed, and nothing on the others.
  [[nodiscard]] T counted_once(T beta) const { return counted_once(beta, Pending{}); }
  template <class... A>
  [[nodiscard]] T counted_once(T beta, Axes<A...>) const
  {
    return ((mesh_.template coordinate<A>() == 0) && ...) ? beta : T{};
  }

  Mesh mesh_;
  ProductSize size_;
  typename S::Algorithm::template Plan<T, Mesh> plan_;
};

}  // namespace cubist
