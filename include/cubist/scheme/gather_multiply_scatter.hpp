// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product on a mesh of three axes: gather both operands, multiply once, scatter the sums.
//
//   X (M, K) rows [z y] cols [x]    W (K, N) rows [x z] cols [y]    Y (M, N) rows [z x] cols [y]
//
//   Y  = X W     gather X along y, W along z; multiply; reduce_scatter along x
//   dX = dY W^T  gather dY along x, W along z; multiply; reduce_scatter along y
//   dW = X^T dY  gather X along y, dY along x; multiply; reduce_scatter along z
//
// It is one algorithm with the axes permuted. Every axis is gathered or scattered where it is the
// innermost of the rows, so gathered blocks lie one behind the other in memory. Where ranks are far
// apart, blocks travel one by one: each is multiplied once it has come (tiles.hpp), and the sums
// that are complete travel while the rest is multiplied.
//
// Words: [(y-1) MK + (z-1) KN + (x-1) MN] / xyz a rank for each of the three. `backward` gathers dY
// once for both gradients, and takes gathered X and W from forward if they are kept: the same
// number again, or [(y-1) MK + (z-1) KN] / xyz more if they are not. Source: Bian et al.,
// "Maximizing Parallelism in Distributed Training for Huge Neural Networks", arXiv 2105.14450,
// section 3.1; MindSpore, High Dimension Tensor Parallel.

#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/scheme/pieces.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/tiles.hpp"

namespace cubist
{

template <class X, class Y, class Z>
struct GatherMultiplyScatter
{
  template <Scalar T, class M>
  class Plan
  {
    using In = MatrixView<const T>;
    using Out = MatrixView<T>;

   public:
    Plan(const M& mesh, const LocalShapes& local, Gathered policy)
        : mesh_{mesh}, keep_{policy == Gathered::kept}, travel_{along<X>().remote() ||
                                                                        along<Y>().remote() ||
                                                                        along<Z>().remote()
                                                                    ? Travel::piecewise
                                                                    : Travel::whole},
          x_{gathered<Y>(local.x)}, w_{gathered<Z>(local.w)}, y_{gathered<X>(local.y)},
          dx_{gathered<Y>(local.x)}, dw_{gathered<Z>(local.w)},
          forward_{detail::product_tiles({y_.all.rows, y_.all.cols, x_.all.cols}, pieces<Y>(),
                                         pieces<Z>(), pieces<X>())},
          grad_input_{detail::product_transposed_tiles({dx_.all.rows, dx_.all.cols, y_.all.cols},
                                                       pieces<X>(), pieces<Z>(), pieces<Y>())},
          grad_weight_{detail::transposed_product_tiles({dw_.all.rows, dw_.all.cols, x_.all.rows},
                                                        pieces<Y>(), pieces<X>(), pieces<Z>())}
    {
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      Gather xs = gather<Y>(x, x_);
      Gather ws = gather<Z>(w, w_);
      Scatter ys = scatter<X>(y_, beta, y);
      multiply(forward_, Op::none, Op::none, alpha, xs, ws, ys);
      finish(xs, ws, ys);
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      Gather dys = gather<X>(dy, y_);
      Gather ws = gather<Z>(w, w_);
      Scatter dxs = scatter<Y>(dx_, beta, dx);
      multiply(grad_input_, Op::none, Op::transpose, alpha, dys, ws, dxs);
      finish(dys, ws, dxs);
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      Gather xs = gather<Y>(x, x_);
      Gather dys = gather<X>(dy, y_);
      Scatter dws = scatter<Z>(dw_, beta, dw);
      multiply(grad_weight_, Op::transpose, Op::none, alpha, xs, dys, dws);
      finish(xs, dys, dws);
    }

    /// Both gradients; if gathered operands are kept, X and W are those of the last forward. The
    /// sum of dX travels while dW is multiplied.
    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      Gather dys = gather<X>(dy, y_);
      Gather ws = keep_ ? kept<Z>(w, w_) : gather<Z>(w, w_);
      Gather xs = keep_ ? kept<Y>(x, x_) : gather<Y>(x, x_);
      Scatter dxs = scatter<Y>(dx_, T{}, dx);
      Scatter dws = scatter<Z>(dw_, beta, dw);
      multiply(grad_input_, Op::none, Op::transpose, T{1}, dys, ws, dxs);
      multiply(grad_weight_, Op::transpose, Op::none, T{1}, xs, dys, dws);
      finish(xs, ws, dys, dxs, dws);
    }

   private:
    using Communicator = typename M::Communicator;
    using Engine = typename M::Engine;
    using Travel = detail::Travel;
    using Gather = detail::GatherRows<T, Communicator>;
    using Scatter = detail::ScatterSum<T, Communicator, Engine>;
    using Tiles = std::vector<detail::Tile>;

    /// Room for a gathered matrix, or one to be scattered, and for this rank's block of its sum.
    struct Workspace
    {
      Workspace(Shape all_shape, Shape sum_shape)
          : all{all_shape}, sums{sum_shape}, all_data(all.size()), sum_data(sums.size())
      {
      }
      [[nodiscard]] Out view() { return {all_data.data(), all}; }
      [[nodiscard]] Out sum() { return {sum_data.data(), sums}; }

      Shape all;
      Shape sums;
      typename Engine::template Buffer<T> all_data;
      typename Engine::template Buffer<T> sum_data;
    };

    template <class A>
    [[nodiscard]] Communicator& along() const
    {
      return mesh_.template along<A>();
    }
    template <class A>
    [[nodiscard]] detail::Pieces pieces() const
    {
      return detail::pieces_along(along<A>(), travel_);
    }
    [[nodiscard]] const Engine& engine() const { return mesh_.engine(); }

    template <class A>
    [[nodiscard]] Workspace gathered(Shape mine) const
    {
      const auto extent = static_cast<std::size_t>(mesh_.template extent<A>());
      return {{mine.rows * extent, mine.cols},
              {mine.rows * Scatter::room(along<A>(), travel_), mine.cols}};
    }

    template <class A>
    [[nodiscard]] Gather gather(In mine, Workspace& w)
    {
      return {along<A>(), travel_, mine, w.view()};
    }
    template <class A>
    [[nodiscard]] Gather kept(In mine, Workspace& w)
    {
      return {along<A>(), travel_, mine, In{w.view()}};
    }
    template <class A>
    [[nodiscard]] Scatter scatter(Workspace& w, T beta, Out mine)
    {
      return {along<A>(), travel_, engine(), w.view(), w.sum(), beta, mine};
    }

    /// C += alpha op(A) op(B), tile by tile; each piece of C leaves once it is complete.
    void multiply(const Tiles& tiles, Op op_a, Op op_b, T alpha, Gather& as, Gather& bs,
                  Scatter& cs)
    {
      for (const auto& t : tiles)
      {
        const In a = part(op_a, as[t.a], t.rows, t.inner);
        const In b = part(op_b, bs[t.b], t.inner, t.cols);
        const Out c = cs.part().block(t.rows.begin, t.cols.begin, {t.rows.size(), t.cols.size()});
        engine().gemm(op_a, op_b, alpha, a, b, t.first ? cs.part_beta() : T{1}, c);
        if (t.last) cs.start(t.c);
      }
    }

    /// What a tile needs of a piece, which is a block of its matrix's rows.
    [[nodiscard]] static In part(Op op, In piece, detail::Interval rows, detail::Interval cols)
    {
      if (op != Op::none) std::swap(rows, cols);
      const std::size_t before = piece.rows() == 0 ? 0 : rows.begin / piece.rows() * piece.rows();
      return piece.block(rows.begin - before, cols.begin, {rows.size(), cols.size()});
    }

    template <class... Travellers>
    static void finish(Travellers&... all)
    {
      (all.finish(), ...);
    }

    M mesh_;
    bool keep_;
    Travel travel_;
    Workspace x_;
    Workspace w_;
    Workspace y_;
    Workspace dx_;
    Workspace dw_;
    Tiles forward_;
    Tiles grad_input_;
    Tiles grad_weight_;
  };
};

}  // namespace cubist
