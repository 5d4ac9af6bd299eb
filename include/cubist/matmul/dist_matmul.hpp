// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The distributed product, on any scheme and backend.
//
//   X (M, K) S::Input    W (K, N) S::Weight    Y = X W (M, N) S::Output
//
// X and W may be stored transposed: Y = op(A) op(B), where A is the transpose or adjoint of X, or B
// is that of W, or both. Each rank then holds the transpose of its block: Transposed<S::Input>.
//
// A call checks its operands and passes their blocks to a ProductPlan (scheme/scheme.hpp says
// which).
//
// Elements that one rank sends: see the scheme's header; none if ranks read each other's memory.

#include <cstddef>
#include <memory>
#include <type_traits>

#include "cubist/algorithm/direct/direct_product.hpp"
#include "cubist/algorithm/options.hpp"
#include "cubist/algorithm/product_plan.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/matmul/product_calls.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/matrix/placement.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/scheme/catalogue.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The layout in which M is stored if op(M) has layout `L`.
template <Op op, class L>
using StoredLayout = std::conditional_t<op == Op::none, L, Transposed<L>>;

/// A rank's plan for a product.
template <class T>
struct MadePlan
{
  std::unique_ptr<ProductPlan<T>> plan;
  bool is_local;  ///< whether each rank's block of Y is the product of its own blocks
};

/// Makes the plan of Y = op(X) op(W): the direct product, or the scheme's algorithm.
template <SchemeType S, class B, Scalar T, Op op_x, Op op_w>
MadePlan<T> make_product_plan(const AxisMesh<typename S::Axes, B>& mesh, ProductSize size,
                              ProductQuanta quanta, Gathered policy, bool is_direct)
{
  using Mesh = AxisMesh<typename S::Axes, B>;
  const OperandBlocks<StoredLayout<op_x, typename S::Input>, Mesh> x{
      mesh, op_shape(op_x, {size.m, size.k}), op_quanta(op_x, {quanta.m, quanta.k}), op_x};
  const OperandBlocks<StoredLayout<op_w, typename S::Weight>, Mesh> w{
      mesh, op_shape(op_w, {size.k, size.n}), op_quanta(op_w, {quanta.k, quanta.n}), op_w};
  const OperandBlocks<typename S::Output, Mesh> y{mesh, {size.m, size.n}, {quanta.m, quanta.n}};
  const bool is_local = is_blockwise_product(mesh.size(), size.k, x, w, y);
  const Ops ops{op_x, op_w};
  if constexpr (ExposesMemory<typename B::Communicator>)
    if (is_direct)
      return {make_direct_product<T>(mesh.world(), mesh.engine(), ops, x.placement(), w.placement(),
                                     y.placement()),
              is_local};
  const int rank = mesh.rank();
  const LocalShapes local{x(rank).padded(), w(rank).padded(), y(rank).padded()};
  return {S::Algorithm::template make_plan<T>(mesh, local, ops, policy), is_local};
}

}  // namespace detail

/// A plan for products of one size. It owns its workspace, and allocates nothing after the first
/// call. Every rank of the mesh makes the plan and calls it, from one thread at a time. X, W and Y
/// must not share memory, so a result must not be an operand as well.
/// @throws from every call: ShapeError for matrices of other sizes, MeshError for matrices on
/// another mesh, ArgumentError for a result that is an operand, and for two calls at once
/// @tparam op_x, op_w the operations on the matrices that are passed as X and W
template <SchemeType S, class B, Scalar T, Op op_x = Op::none, Op op_w = Op::none>
class DistMatMul
{
  using InputLayout = detail::StoredLayout<op_x, typename S::Input>;
  using WeightLayout = detail::StoredLayout<op_w, typename S::Weight>;

 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Communicator = typename B::Communicator;
  using Input = DistMatrix<T, InputLayout, Mesh>;
  using Weight = DistMatrix<T, WeightLayout, Mesh>;
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  /// @param quanta the quanta of X (m, k), W (k, n) and Y (m, n), as in DistMatrix::quanta
  /// @throws ArgumentError for a method that the ranks of the mesh cannot use, ShapeError for sizes
  /// that exceed 64 bits, MeshError for quanta that are not multiples of the mesh's
  explicit DistMatMul(const Mesh& mesh, ProductSize size, Gathered policy = Gathered::again,
                      Method requested = Method::automatic, ProductQuanta quanta = {})
      : mesh_{mesh},
        size_{size},
        quanta_{detail::or_of_mesh(quanta, mesh.quantum())}
  {
    const bool exposed =
        detail::require_possible<T>(mesh_, requested, {x_shape(), w_shape(), y_shape()});
    if (exposed && requested != Method::collectives) method_ = Method::direct;
    auto [plan, is_local] = detail::make_product_plan<S, B, T, op_x, op_w>(
        mesh_, size_, quanta_, policy, method_ == Method::direct);
    plan_ = std::move(plan);
    is_local_ = is_local;
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  [[nodiscard]] ProductSize size() const { return size_; }
  [[nodiscard]] ProductQuanta quanta() const { return quanta_; }
  /// The method that runs: collectives or direct.
  [[nodiscard]] Method method() const { return method_; }
  /// Whether each rank's block of Y is the product of its own blocks of X and W, so that `forward`
  /// sends nothing.
  [[nodiscard]] bool is_local() const { return is_local_; }

  /// The size of this rank's workspace in bytes, without X, W and Y.
  [[nodiscard]] std::size_t workspace_bytes() const { return plan_->workspace_bytes(); }
  /// Frees the workspace, including gathered operands that Gathered::kept keeps. The next call
  /// allocates it again.
  void release_workspace() { plan_->release_workspace(); }

  template <class LX, class LW, class LY>
  void require_operands(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                        const DistMatrix<T, LY, Mesh>& y) const
  {
    check_x("X", x), check_w("W", w), check_y("Y", y);
  }

  /// Computes Y = alpha op(X) op(W) + beta Y.
  template <class LX, class LW, class LY>
  void forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
               DistMatrix<T, LY, Mesh>& y, T alpha = T{1}, T beta = T{})
  {
    require_operands(x, w, y);
    detail::require_distinct("Y", &y, {&x, &w});
    const auto call = calls_.enter(mesh_.engine(), "forward");
    plan_->forward(alpha, x.padded(), w.padded(), beta, y.padded());
  }

  /// Returns Y = op(X) op(W) in a new matrix.
  template <class LX, class LW>
  [[nodiscard]] Output forward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w)
  {
    Output y{mesh_, y_shape(), y_quanta()};
    forward(x, w, y);
    return y;
  }
  /// Does not compile, because X or W is not distributed.
  template <class X, class W>
  requires(!detail::DistMatrixOf<X, T, Mesh> || !detail::DistMatrixOf<W, T, Mesh>) Output
      forward(const X&, const W&)
  {
    detail::require_distributed<X, T, Mesh>();
    detail::require_distributed<W, T, Mesh>();
    return {mesh_, y_shape()};
  }

  /// Computes Z = X W, followed by the epilogue. If each rank's block of Z is the product of its
  /// own blocks, the engine may fuse the two.
  template <class LX, class LW, class LZ, class F>
  requires(op_x == Op::none &&
           op_w == Op::none) void forward(const DistMatrix<T, LX, Mesh>& x,
                                          const DistMatrix<T, LW, Mesh>& w,
                                          DistMatrix<T, LZ, Mesh>& z,
                                          const detail::Epilogue<T, F>& epilogue)
  {
    require_operands(x, w, z);
    detail::require_distinct("Z", &z, {&x, &w});
    const auto call = calls_.enter(mesh_.engine(), "forward");
    if (is_local_)
      return detail::multiply(mesh_.engine(), x.valid(), w.valid(), epilogue, z.valid());
    plan_->forward(T{1}, x.padded(), w.padded(), T{}, z.padded());
    detail::apply(mesh_.engine(), epilogue, z.valid());
  }

  /// Computes dX = alpha dY op(W)^T + beta dX, or the transpose of that if X is stored transposed.
  /// Nothing is conjugated.
  template <class LY, class LW, class LX>
  void grad_input(const DistMatrix<T, LY, Mesh>& dy, const DistMatrix<T, LW, Mesh>& w,
                  DistMatrix<T, LX, Mesh>& dx, T alpha = T{1}, T beta = T{})
  {
    require_gradients();
    check_y("dY", dy), check_w("W", w), check_x("dX", dx);
    detail::require_distinct("dX", &dx, {&dy, &w});
    const auto call = calls_.enter(mesh_.engine(), "grad_input");
    plan_->grad_input(alpha, dy.padded(), w.padded(), beta, dx.padded());
  }

  /// Computes dW = alpha op(X)^T dY + beta dW, or the transpose of that if W is stored transposed;
  /// dW is complete on every replica. Nothing is conjugated.
  template <class LX, class LY, class LW>
  void grad_weight(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                   DistMatrix<T, LW, Mesh>& dw, T alpha = T{1}, T beta = T{})
  {
    require_gradients();
    check_x("X", x), check_y("dY", dy), check_w("dW", dw);
    detail::require_distinct("dW", &dw, {&x, &dy});
    const auto call = calls_.enter(mesh_.engine(), "grad_weight");
    plan_->grad_weight(alpha, x.padded(), dy.padded(), beta_once(beta), dw.padded());
    sum(dw, parts_of_weight());
  }

  /// Computes dX = dY W^T and dW = X^T dY + beta dW. This sends fewer elements than two calls.
  /// @pre with Gathered::kept, X and W are the same as in the last `forward` and in every call
  /// since
  template <class LX, class LW, class LY, class LDX, class LDW>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LDX, Mesh>& dx,
                DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    sum(dw, backward_parts(x, w, dy, dx, dw, beta));
  }

  /// Computes dX as `backward` does, but in dW only this rank's term of a sum over the replicas of
  /// W. Returns the ranks of these replicas, or null if dW is complete. A layer passes both to a
  /// GradientReducer.
  template <class LX, class LW, class LY, class LDX, class LDW>
  [[nodiscard]] Communicator*
  backward_parts(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LW, Mesh>& w,
                 const DistMatrix<T, LY, Mesh>& dy, DistMatrix<T, LDX, Mesh>& dx,
                 DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    require_gradients();
    check_x("X", x), check_w("W", w), check_y("dY", dy), check_x("dX", dx), check_w("dW", dw);
    detail::require_distinct("dX", &dx, {&x, &w, &dy, &dw});
    detail::require_distinct("dW", &dw, {&x, &w, &dy});
    const auto call = calls_.enter(mesh_.engine(), "backward");
    plan_->backward(x.padded(), w.padded(), dy.padded(), dx.padded(), dw.padded(), beta_once(beta));
    return parts_of_weight();
  }

  /// Computes dX = dY W^T without dW, for a weight that is not trained.
  /// @pre with Gathered::kept, W is the same as in the last `forward` and in every call since
  template <class LW, class LY, class LDX>
  void backward_input(const DistMatrix<T, LW, Mesh>& w, const DistMatrix<T, LY, Mesh>& dy,
                      DistMatrix<T, LDX, Mesh>& dx)
  {
    require_gradients();
    check_w("W", w), check_y("dY", dy), check_x("dX", dx);
    detail::require_distinct("dX", &dx, {&w, &dy});
    const auto call = calls_.enter(mesh_.engine(), "backward of the input");
    plan_->backward_input(w.padded(), dy.padded(), dx.padded());
  }

  /// Computes dW = X^T dY + beta dW without dX, which is not needed if X is data.
  /// @pre with Gathered::kept, X is the same as in the last `forward` and in every call since
  template <class LX, class LY, class LDW>
  void backward(const DistMatrix<T, LX, Mesh>& x, const DistMatrix<T, LY, Mesh>& dy,
                DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    sum(dw, backward_parts(x, dy, dw, beta));
  }

  /// Computes only this rank's term of dW, without dX. Returns the ranks that hold the other terms,
  /// or null if dW is complete.
  template <class LX, class LY, class LDW>
  [[nodiscard]] Communicator* backward_parts(const DistMatrix<T, LX, Mesh>& x,
                                             const DistMatrix<T, LY, Mesh>& dy,
                                             DistMatrix<T, LDW, Mesh>& dw, T beta = T{})
  {
    require_gradients();
    check_x("X", x), check_y("dY", dy), check_w("dW", dw);
    detail::require_distinct("dW", &dw, {&x, &dy});
    const auto call = calls_.enter(mesh_.engine(), "backward of the weight");
    plan_->backward_weight(x.padded(), dy.padded(), dw.padded(), beta_once(beta));
    return parts_of_weight();
  }

 private:
  // Replicas of W see different rows of X and dY, so each holds only one term of the sum over M.
  using Pending = typename PendingAxes<typename S::Weight, typename S::Output::RowAxes>::type;

  [[nodiscard]] Shape x_shape() const { return op_shape(op_x, {size_.m, size_.k}); }
  [[nodiscard]] Shape w_shape() const { return op_shape(op_w, {size_.k, size_.n}); }
  [[nodiscard]] Shape y_shape() const { return {size_.m, size_.n}; }

  [[nodiscard]] Quanta x_quanta() const { return detail::op_quanta(op_x, {quanta_.m, quanta_.k}); }
  [[nodiscard]] Quanta w_quanta() const { return detail::op_quanta(op_w, {quanta_.k, quanta_.n}); }
  [[nodiscard]] Quanta y_quanta() const { return {quanta_.m, quanta_.n}; }

  static constexpr void require_gradients()
  {
    static_assert(!ComplexScalar<T> || (op_x != Op::adjoint && op_w != Op::adjoint),
                  "a product with the adjoint of a complex matrix has no gradient here, because "
                  "that would need a product with a conjugate, which BLAS does not have; conjugate "
                  "the matrix first and use Op::transpose");
  }

  template <class Expected, class L>
  void check(const char* what, const DistMatrix<T, L, Mesh>& m, Shape expected, Quanta quanta) const
  {
    detail::require_layout<L, Expected>();
    detail::require_operand(what, m.shape(), expected, m.quanta(), quanta, m.mesh() == mesh_,
                            size_);
  }
  // Operands in the wrong order get the messages below; other layouts get that of require_layout.
  template <class L>
  static constexpr bool is_x = std::is_same_v<L, InputLayout>;
  template <class L>
  static constexpr bool is_w = std::is_same_v<L, WeightLayout>;
  template <class L>
  static constexpr bool is_y = std::is_same_v<L, typename S::Output>;

  template <class L>
  void check_x(const char* what, const DistMatrix<T, L, Mesh>& x) const
  {
    static_assert(is_x<L> || !is_w<L>,
                  "a matrix that is cut as a weight W is where X or dX goes, so the blocks of a "
                  "rank would not correspond; scatter X with Scheme::Input, and pass X before W, "
                  "dX before dW");
    check<InputLayout>(what, x, x_shape(), x_quanta());
  }
  template <class L>
  void check_w(const char* what, const DistMatrix<T, L, Mesh>& w) const
  {
    static_assert(is_w<L> || (!is_x<L> && !is_y<L>),
                  "a matrix that is cut as X or Y is where the weight W or dW goes, so the blocks "
                  "of a rank would not correspond; scatter W with Scheme::Weight, and pass X "
                  "before W, dX before dW");
    check<WeightLayout>(what, w, w_shape(), w_quanta());
  }
  template <class L>
  void check_y(const char* what, const DistMatrix<T, L, Mesh>& y) const
  {
    static_assert(is_y<L> || (!is_x<L> && !is_w<L>),
                  "a matrix that is cut as X or W is where Y or dY goes, so the blocks of a rank "
                  "would not correspond; make it an Output, and pass X and W before Y, X before "
                  "dY");
    check<typename S::Output>(what, y, y_shape(), y_quanta());
  }

  /// Returns the ranks that hold the terms of dW, or null if dW is complete, as after the direct
  /// product.
  [[nodiscard]] Communicator* parts_of_weight() const
  {
    if (method_ == Method::direct) return nullptr;
    return detail::replicas_along(mesh_, Pending{});
  }
  template <class LW>
  static void sum(DistMatrix<T, LW, Mesh>& dw, Communicator* parts)
  {
    if (parts) parts->all_reduce(dw.padded().elements());
  }

  /// Returns beta on the first of the replicas that are summed, and 0 on the others.
  [[nodiscard]] T beta_once(T beta) const
  {
    return method_ == Method::direct || mesh_.is_first(Pending{}) ? beta : T{};
  }

  Mesh mesh_;  // before plan_, which has references to its communicators
  ProductSize size_;
  ProductQuanta quanta_;
  Method method_ = Method::collectives;
  bool is_local_ = false;
  std::unique_ptr<ProductPlan<T>> plan_;
  detail::ProductCalls calls_{S::name, size_};
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_PRODUCT_INSTANCES(prefix, S, B, T)                                                  \
  CUBIST_INSTANCE(prefix, detail::make_product_plan<S, B, T, Op::none, Op::none>)                  \
  CUBIST_INSTANCE(prefix, detail::make_product_plan<S, B, T, Op::none, Op::transpose>)
CUBIST_FOR_SCHEMES(CUBIST_PRODUCT_INSTANCES)

}  // namespace cubist::CUBIST_ABI
