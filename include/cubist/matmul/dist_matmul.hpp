// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The distributed product, on any scheme and backend.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y = X W (M, N) S::Output
//
// X and W may lie in memory transposed: Y = op(A) op(B), where A or B or both are the transpose of
// X and W, or their adjoint, and each rank holds the transpose of its block: Transposed<S::Input>.
//
// Words: those of the scheme, see its header; none where ranks read each other's memory instead.

#include <type_traits>
#include <utility>
#include <variant>

#include "cubist/algorithm/direct/direct_product.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/exclusive.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/dist/replica_sum.hpp"
#include "cubist/matmul/operands.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

/// A plan for products of one size: it owns its workspace, and allocates nothing after it is made.
/// Every rank of the mesh makes the plan and calls it, from one thread at a time. What is written
/// may not be an operand as well; X, W and Y must not share memory.
/// @throws ArgumentError from every call for a result that is an operand, and for two calls at once
/// @tparam op_x, op_w how X and W follow from the matrices that are handed in
template <Scheme S, class B, Scalar T, Op op_x = Op::none, Op op_w = Op::none>
class DistMatMul
{
  template <Op op, class L>
  using Stored = std::conditional_t<op == Op::none, L, Transposed<L>>;
  using InputLayout = Stored<op_x, typename S::Input>;
  using WeightLayout = Stored<op_w, typename S::Weight>;

 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Input = DistMatrix<T, InputLayout, Mesh>;
  using Weight = DistMatrix<T, WeightLayout, Mesh>;
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  /// @throws ArgumentError for a method that the ranks of the mesh can't meet, ShapeError for sizes
  /// that 64 bits do not count
  explicit DistMatMul(const Mesh& mesh, ProductSize size, Gathered policy = Gathered::again,
                      Method requested = Method::automatic)
      : mesh_{mesh}, size_{size}, plan_{made(policy, requested)},
        is_local_{detail::multiplies_blockwise(x_place(), w_place(), y_place())}
  {
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] ProductSize size() const { return size_; }
  /// What it uses: collectives or direct.
  [[nodiscard]] Method method() const
  {
    return plan_.index() == 0 ? Method::collectives : Method::direct;
  }
  /// Whether each rank's block of Y is the product of its blocks of X and W, so that ranks have
  /// nothing for each other.
  [[nodiscard]] bool is_local() const { return is_local_; }

  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW, class LY>
  void require_operands(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                        const DistMatrix<T, LY, Mesh>& y) const
  {
    check_x("X", x);
    check_w("W", w);
    check_y("Y", y);
  }

  /// Y = alpha op(X) op(W) + beta Y
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
               DistMatrix<T, LY, Mesh>& y, T alpha = T{1}, T beta = T{})
  {
    require_operands(x, w, y);
    detail::require_apart("Y", &y, {&x, &w});
    const auto turn = exclusive_.turn("a plan");
    with_plan([&](auto& p) { p.forward(alpha, x.padded(), w.padded(), beta, y.padded()); });
  }

  /// Y = op(X) op(W), in a new matrix.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW>
  [[nodiscard]] Output forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w)
  {
    Output y{mesh_, {size_.m, size_.n}};
    forward(x, w, y);
    return y;
  }

  /// Calls `multiply` with this rank's blocks of X, W and Y, to make Y = X W and more in its way.
  /// @pre is_local()
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LW, class LY, class F>
  void forward_locally(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                       DistMatrix<T, LY, Mesh>& y, F multiply)
  {
    require_operands(x, w, y);
    detail::require_apart("Y", &y, {&x, &w});
    const auto turn = exclusive_.turn("a plan");
    multiply(x.valid(), w.valid(), y.valid());
  }

  /// dX = alpha dY op(W)^T + beta dX, or the transpose of that where X is stored transposed;
  /// nothing is conjugated.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LY, class LW, class LX>
  void grad_input(const DistMatrix<T, LY, Mesh>& dy, const DistMatrix<T, LW, Mesh>& w,
                  DistMatrix<T, LX, Mesh>& dx, T alpha = T{1}, T beta = T{})
  {
    require_gradients();
    check_y("dY", dy);
    check_w("W", w);
    check_x("dX", dx);
    detail::require_apart("dX", &dx, {&dy, &w});
    const auto turn = exclusive_.turn("a plan");
    with_plan([&](auto& p) { p.grad_input(alpha, dy.padded(), w.padded(), beta, dx.padded()); });
  }

  /// dW = alpha op(X)^T dY + beta dW, or the transpose of that, complete on every replica; nothing
  /// is conjugated.
  /// @throws ShapeError for matrices of other sizes, MeshError for matrices of another mesh
  template <class LX, class LY, class LW>
  void grad_weight(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                   DistMatrix<T, LW, Mesh>& dw, T alpha = T{1}, T beta = T{})
  {
    require_gradients();
    check_x("X", x);
    check_y("dY", dy);
    check_w("dW", dw);
    detail::require_apart("dW", &dw, {&x, &dy});
    const auto turn = exclusive_.turn("a plan");
    with_plan([&](auto& p) {
      p.grad_weight(alpha, x.padded(), dy.padded(), counted_once(beta), dw.padded());
    });
    sum(dw).wait();
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
    require_gradients();
    check_x("X", x);
    check_w("W", w);
    check_y("dY", dy);
    check_x("dX", dx);
    check_w("dW", dw);
    detail::require_apart("dX", &dx, {&x, &w, &dy, &dw});
    detail::require_apart("dW", &dw, {&x, &w, &dy});
    const auto turn = exclusive_.turn("a plan");
    with_plan([&](auto& p) {
      p.backward(x.padded(), w.padded(), dy.padded(), dx.padded(), dw.padded(), counted_once(beta));
    });
    return sum(dw);
  }

 private:
  // Replicas of W see other rows of X and dY, so each has only a part of the sum over M.
  using Pending = typename PendingAxes<typename S::Weight, typename S::Output::RowAxes>::type;

  using Collectives = typename S::Algorithm::template Plan<T, Mesh>;
  template <bool exposes, class = void>
  struct Plans
  {
    using type = std::variant<Collectives>;
  };
  template <class None>
  struct Plans<true, None>
  {
    using type = std::variant<Collectives, DirectProduct<T, Mesh>>;
  };
  static constexpr bool exposes = ExposesMemory<typename B::Communicator>;
  using Plan = typename Plans<exposes>::type;

  [[nodiscard]] Plan made(Gathered policy, Method requested) const
  {
    for (const Shape s : {x_shape(), w_shape(), Shape{size_.m, size_.n}})
      require_countable(s, sizeof(T));
    const bool reads = can_expose(mesh_.world());
    require<ArgumentError>(requested != Method::direct || reads,
                           "got Method::direct, for which all ranks of the mesh read "
                           "each other's memory, but these can't; use Method::automatic");
    if constexpr (exposes)
      if (reads && requested != Method::collectives)
        return DirectProduct<T, Mesh>{mesh_, {op_x, op_w}, x_place(), w_place(), y_place()};
    return Collectives{mesh_,
                       {padded<typename S::Input>({size_.m, size_.k}),
                        padded<typename S::Weight>({size_.k, size_.n}),
                        padded<typename S::Output>({size_.m, size_.n})},
                       {op_x, op_w},
                       policy};
  }

  template <class F>
  void with_plan(F f)
  {
    std::visit(f, plan_);
  }

  [[nodiscard]] Shape x_shape() const { return op_shape(op_x, {size_.m, size_.k}); }
  [[nodiscard]] Shape w_shape() const { return op_shape(op_w, {size_.k, size_.n}); }

  static constexpr void require_gradients()
  {
    static_assert(!ComplexScalar<T> || (op_x != Op::adjoint && op_w != Op::adjoint),
                  "a product with the adjoint of a complex matrix has no gradient here, because "
                  "that would need a product with a conjugate, which BLAS does not have; conjugate "
                  "the matrix first and use Op::transpose");
  }

  [[nodiscard]] auto x_place() const
  {
    return detail::placement<InputLayout>(mesh_, x_shape(), op_x);
  }
  [[nodiscard]] auto w_place() const
  {
    return detail::placement<WeightLayout>(mesh_, w_shape(), op_w);
  }
  [[nodiscard]] auto y_place() const
  {
    return detail::placement<typename S::Output>(mesh_, {size_.m, size_.n}, Op::none);
  }

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
    detail::require_operand(what, m.shape(), wanted, m.mesh() == mesh_, size_);
  }
  template <class L>
  void check_x(const char* what, const DistMatrix<T, L, Mesh>& x) const
  {
    check<InputLayout>(what, x, x_shape());
  }
  template <class L>
  void check_w(const char* what, const DistMatrix<T, L, Mesh>& w) const
  {
    check<WeightLayout>(what, w, w_shape());
  }
  template <class L>
  void check_y(const char* what, const DistMatrix<T, L, Mesh>& y) const
  {
    check<typename S::Output>(what, y, {size_.m, size_.n});
  }

  /// Completes dW; owners have made complete ones.
  template <class LW>
  [[nodiscard]] ReplicaSum<typename B::Communicator> sum(DistMatrix<T, LW, Mesh>& dw) const
  {
    if (method() == Method::direct) return {};
    return sum_replicas(mesh_, Pending{}, dw.padded());
  }

  /// beta on one of the replicas that are summed, and nothing on the others.
  [[nodiscard]] T counted_once(T beta) const
  {
    return method() == Method::direct ? beta : counted_once(beta, Pending{});
  }
  template <class... A>
  [[nodiscard]] T counted_once(T beta, Axes<A...>) const
  {
    return ((mesh_.template coordinate<A>() == 0) && ...) ? beta : T{};
  }

  Mesh mesh_;
  ProductSize size_;
  Plan plan_;
  bool is_local_;
  Exclusive exclusive_;
};

}  // namespace cubist
