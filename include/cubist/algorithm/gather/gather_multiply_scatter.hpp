// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Gather-multiply-scatter, the product on a mesh with any axes: gather both operands, multiply
// once, reduce-scatter the result.
//
//   X (M, K), W (K, N), Y (M, N): any layouts that local_product.hpp accepts
//
//   Y  = X W     gather X and W along their axes; multiply; reduce_scatter along Y's
//   dX = dY W^T  gather dY and W; multiply; reduce_scatter along X's
//   dW = X^T dY  gather X and dY; multiply; reduce_scatter along W's
//
// All three are one algorithm with permuted roles. A matrix that is gathered along no axis is used
// in place. A result with replicas is all-reduced instead. dW is an exception: DistMatMul sums it,
// so that its caller may overlap the sum with other work. If ranks are on several nodes, blocks are
// sent one by one: each is multiplied once it has arrived (tiles.hpp), and complete sums are in
// flight while the rest is multiplied.
//
// Elements that one rank sends, if the axes of X, W and Y have y, z and x of p ranks: [(y-1) MK +
// (z-1) KN + (x-1) MN] / p for each of the three. `backward` gathers dY once for both gradients,
// and takes gathered X and W from forward if they are kept. It then sends as many elements as
// forward, otherwise [(y-1) MK + (z-1) KN] / p more; without dX, (y-1) MK and (z-1) KN less. An
// all_reduce over x ranks sends 2 (x-1)/x of the rank's block. Source: Bian et al., "Maximizing
// Parallelism in Distributed Training for Huge Neural Networks", arXiv 2105.14450, section 3.1;
// MindSpore, High Dimension Tensor Parallel.

#include <algorithm>
#include <cstddef>
#include <memory>

#include "cubist/algorithm/gather/gathered_matrix.hpp"
#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/gather/tiles.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/algorithm/product_plan.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The communicator along which each matrix is gathered, and the dimension that its ranks cut.
template <class C>
struct GatherAxes
{
  struct Matrix
  {
    C& along;
    Dimension cut;
  };
  Matrix x;
  Matrix w;
  Matrix y;
  /// Whether ranks of the mesh are on several nodes. All ranks must agree, even those whose own
  /// axes lie inside one node.
  bool remote;
};

/// The plan of gather-multiply-scatter. It knows communicators, not the mesh and its layouts, so
/// that all schemes of a backend share the type.
template <Scalar T, class C, class E>
class GatherMultiplyScatterPlan final : public ProductPlan<T>
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;

 public:
  /// @pre the communicators and the engine outlive the plan
  GatherMultiplyScatterPlan(const GatherAxes<C>& axes, const E& engine, const LocalShapes& local,
                            Ops ops, Gathered policy)
      : engine_{engine},
        keep_{policy == Gathered::kept},
        x_{matrix(axes, axes.x, ops.x, local.x)},
        w_{matrix(axes, axes.w, ops.w, local.w)},
        y_{matrix(axes, axes.y, Op::none, local.y)},
        dx_{matrix(axes, axes.x, ops.x, local.x)},
        dw_{matrix(axes, axes.w, ops.w, local.w)}
  {
    const Shape x = x_.shape();
    const Shape w = w_.shape();
    const Shape y = y_.shape();
    const auto px = x_.pieces();
    const auto pw = w_.pieces();
    const auto py = y_.pieces();
    forward_ = tiles(x, w, y, px, pw, py);
    grad_input_ = tiles(y, op_shape(true, w), x, py, pw.t(), px);
    grad_weight_ = tiles(op_shape(true, x), y, w, px.t(), py, pw);
  }

  void forward(T alpha, In x, In w, T beta, Out y) override
  {
    Gather xs = x_.gather(x);
    Gather ws = w_.gather(w);
    Scatter ys = y_.scatter(engine_, beta, y);
    multiply(forward_, {}, alpha, xs, ws, ys);
    finish(xs, ws, ys);
  }

  void grad_input(T alpha, In dy, In w, T beta, Out dx) override
  {
    grad_input(alpha, dy, w, beta, dx, false);
  }

  void grad_weight(T alpha, In x, In dy, T beta, Out dw) override
  {
    grad_weight(alpha, x, dy, beta, dw, false);
  }

  /// The sum of dX is in flight while dW is multiplied.
  void backward(In x, In w, In dy, Out dx, Out dw, T beta) override
  {
    Gather dys = y_.gather(dy);
    Gather ws = w_.gather(w, keep_);
    Gather xs = x_.gather(x, keep_);
    Scatter dxs = dx_.scatter(engine_, T{}, dx);
    Scatter dws = dw_.scatter(engine_, beta, dw);
    multiply(grad_input_, {.b = true}, T{1}, dys, ws, dxs);
    multiply(grad_weight_, {.a = true}, T{1}, xs, dys, dws);
    finish(xs, ws, dys, dxs, dws);
  }

  void backward_input(In w, In dy, Out dx) override { grad_input(T{1}, dy, w, T{}, dx, keep_); }

  void backward_weight(In x, In dy, Out dw, T beta) override
  {
    grad_weight(T{1}, x, dy, beta, dw, keep_);
  }

  [[nodiscard]] std::size_t workspace_bytes() const override
  {
    return x_.bytes() + w_.bytes() + y_.bytes() + dx_.bytes() + dw_.bytes();
  }
  void release_workspace() override
  {
    x_.release(), w_.release(), y_.release(), dx_.release(), dw_.release();
  }

 private:
  using Gather = GatherBlocks<T, C>;
  using Scatter = ScatterSum<T, C, E>;
  using Matrix = GatheredMatrix<T, C, E>;

  struct Transposed
  {
    bool a = false;
    bool b = false;
  };

  [[nodiscard]] static Matrix matrix(const GatherAxes<C>& axes,
                                     const typename GatherAxes<C>::Matrix& m, Op op, Shape block)
  {
    const auto granularity = axes.remote ? Granularity::piecewise : Granularity::whole;
    return {{m.along, granularity, m.cut, op != Op::none}, op, block};
  }

  /// Returns the tiles of C = A B. If only one of two matrices is cut, only this one is padded.
  [[nodiscard]] static Tiles tiles(Shape a, Shape b, Shape c, const Pieces& of_a,
                                   const Pieces& of_b, const Pieces& of_c)
  {
    return {{std::max(a.rows, c.rows), std::max(b.cols, c.cols), std::max(a.cols, b.rows)},
            {std::min(a.rows, c.rows), std::min(b.cols, c.cols), std::min(a.cols, b.rows)},
            of_a,
            of_b,
            of_c};
  }

  /// @param kept  whether W has been gathered in forward
  void grad_input(T alpha, In dy, In w, T beta, Out dx, bool kept)
  {
    Gather dys = y_.gather(dy);
    Gather ws = w_.gather(w, kept);
    Scatter dxs = dx_.scatter(engine_, beta, dx);
    multiply(grad_input_, {.b = true}, alpha, dys, ws, dxs);
    finish(dys, ws, dxs);
  }
  /// @param kept  whether X has been gathered in forward
  void grad_weight(T alpha, In x, In dy, T beta, Out dw, bool kept)
  {
    Gather xs = x_.gather(x, kept);
    Gather dys = y_.gather(dy);
    Scatter dws = dw_.scatter(engine_, beta, dw);
    multiply(grad_weight_, {.a = true}, alpha, xs, dys, dws);
    finish(xs, dys, dws);
  }

  /// Computes C += alpha A B tile by tile, and sends each piece of C once it is complete.
  void multiply(const Tiles& tiles, Transposed transposed, T alpha, Gather& as, Gather& bs,
                Scatter& cs)
  {
    for (std::size_t i = 0; i < tiles.size(); ++i)
    {
      const Tile t = tiles[i];
      const auto a =
          transposed.a ? as.part(t.a, t.inner, t.rows).t() : as.part(t.a, t.rows, t.inner);
      const auto b =
          transposed.b ? bs.part(t.b, t.cols, t.inner).t() : bs.part(t.b, t.inner, t.cols);
      cubist::multiply(engine_, alpha, a, b, t.first ? cs.part_beta() : T{1},
                       cs.part(t.c, t.rows, t.cols));
      if (t.last) cs.start(t.c);
    }
  }

  template <class... Collective>
  static void finish(Collective&... all)
  {
    (all.finish(), ...);
  }

  const E& engine_;
  bool keep_;
  Matrix x_;
  Matrix w_;
  Matrix y_;
  Matrix dx_;
  Matrix dw_;
  Tiles forward_;
  Tiles grad_input_;
  Tiles grad_weight_;
};

/// Makes the plan. It is a function so that the compiled library can contain it.
template <Scalar T, class C, class E>
std::unique_ptr<ProductPlan<T>> make_gather_plan(const GatherAxes<C>& axes, const E& engine,
                                                 const LocalShapes& local, Ops ops, Gathered policy)
{
  return std::make_unique<GatherMultiplyScatterPlan<T, C, E>>(axes, engine, local, ops, policy);
}

}  // namespace detail

/// Gather-multiply-scatter along the axes that follow from these layouts (local_product.hpp).
template <class Input, class Weight, class Output>
struct GatherMultiplyScatter
{
  /// The product of a rank's blocks.
  using Local = LocalProduct<Input, Weight, Output>;

  /// Makes a plan; collective.
  /// @pre the mesh outlives the plan
  template <Scalar T, class M>
  [[nodiscard]] static std::unique_ptr<ProductPlan<T>>
  make_plan(const M& mesh, const LocalShapes& local, Ops ops, Gathered policy)
  {
    using C = typename M::Communicator;
    const auto axes = [&mesh]<class Role>(Role) -> typename detail::GatherAxes<C>::Matrix {
      return {detail::along_axes(mesh, typename Role::CollectiveAxes{}), Role::cut};
    };
    return detail::make_gather_plan<T>(
        detail::GatherAxes<C>{axes(typename Local::Input{}), axes(typename Local::Weight{}),
                              axes(typename Local::Output{}), mesh.world().remote()},
        mesh.engine(), local, ops, policy);
  }
};

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_GATHER_INSTANCES(prefix, B, T)                                                      \
  CUBIST_INSTANCE(                                                                                 \
      prefix,                                                                                      \
      detail::make_gather_plan<T, detail::Named<B>::Communicator, detail::Named<B>::Engine>)
CUBIST_FOR_BACKENDS(CUBIST_GATHER_INSTANCES)

}  // namespace cubist::CUBIST_ABI
