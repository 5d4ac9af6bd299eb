// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product on a mesh of any axes: gather both operands, multiply once, scatter the sums.
//
//   X (M, K), W (K, N), Y (M, N): any layouts of which local_product.hpp makes sense
//
//   Y  = X W     gather X and W along their axes; multiply; reduce_scatter along Y's
//   dX = dY W^T  gather dY and W; multiply; reduce_scatter along X's
//   dW = X^T dY  gather X and dY; multiply; reduce_scatter along W's
//
// It is one algorithm with the roles permuted. A matrix without an axis of its own is there
// already; a result that holds replicas is all-reduced instead, but for dW, which the product sums
// (it may travel longer). Where ranks are far apart, blocks travel one by one: each is multiplied
// once it has come (tiles.hpp), and the sums that are complete travel while the rest is multiplied.
//
// Words, the axes of X, W and Y having y, z and x of p ranks: [(y-1) MK + (z-1) KN + (x-1) MN] / p
// a rank for each of the three. `backward` gathers dY once for both gradients, and takes gathered X
// and W from forward if they are kept: the same number again, or [(y-1) MK + (z-1) KN] / p more if
// they are not. An all_reduce over x ranks sends 2 (x-1)/x of the rank's block.
// Source: Bian et al., "Maximizing Parallelism in Distributed Training for Huge Neural Networks",
// arXiv 2105.14450, section 3.1; MindSpore, High Dimension Tensor Parallel.

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/gather/tiles.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

template <class Input, class Weight, class Output>
struct GatherMultiplyScatter
{
  using Local = LocalProduct<Input, Weight, Output>;

  template <Scalar T, class M>
  class Plan
  {
    using In = MatrixView<const T>;
    using Out = MatrixView<T>;

   public:
    Plan(const M& mesh, const LocalShapes& local, Ops ops, Gathered policy)
        : mesh_{mesh}, keep_{policy == Gathered::kept}, x_{side<typename Local::Input>(ops.x,
                                                                                       local.x)},
          w_{side<typename Local::Weight>(ops.w, local.w)}, y_{side<typename Local::Output>(
                                                                Op::none, local.y)},
          dx_{side<typename Local::Input>(ops.x, local.x)}, dw_{side<typename Local::Weight>(
                                                                ops.w, local.w)}
    {
      const Shape x = x_.shape();
      const Shape w = w_.shape();
      const Shape y = y_.shape();
      // Where only one of two matrices is cut, only that one is padded.
      const auto tiles = [](std::size_t m, std::size_t m2, std::size_t n, std::size_t n2,
                            std::size_t k, std::size_t k2, detail::Pieces a, detail::Pieces b,
                            detail::Pieces c) {
        return detail::product_tiles({std::max(m, m2), std::max(n, n2), std::max(k, k2)},
                                     {std::min(m, m2), std::min(n, n2), std::min(k, k2)}, a, b, c);
      };
      const auto px = x_.pieces();
      const auto pw = w_.pieces();
      const auto py = y_.pieces();
      forward_ = tiles(x.rows, y.rows, w.cols, y.cols, x.cols, w.rows, px, pw, py);
      grad_input_ = tiles(y.rows, x.rows, w.rows, x.cols, y.cols, w.cols, py, pw.t(), px);
      grad_weight_ = tiles(x.cols, w.rows, y.cols, w.cols, x.rows, y.rows, px.t(), py, pw);
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      Gather xs = x_.gather(x);
      Gather ws = w_.gather(w);
      Scatter ys = y_.scatter(engine(), beta, y);
      multiply(forward_, {}, alpha, xs, ws, ys);
      finish(xs, ws, ys);
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      Gather dys = y_.gather(dy);
      Gather ws = w_.gather(w);
      Scatter dxs = dx_.scatter(engine(), beta, dx);
      multiply(grad_input_, {.b = true}, alpha, dys, ws, dxs);
      finish(dys, ws, dxs);
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      Gather xs = x_.gather(x);
      Gather dys = y_.gather(dy);
      Scatter dws = dw_.scatter(engine(), beta, dw);
      multiply(grad_weight_, {.a = true}, alpha, xs, dys, dws);
      finish(xs, dys, dws);
    }

    /// Both gradients; if gathered operands are kept, X and W are those of the last forward. The
    /// sum of dX travels while dW is multiplied.
    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      Gather dys = y_.gather(dy);
      Gather ws = keep_ ? w_.kept(w) : w_.gather(w);
      Gather xs = keep_ ? x_.kept(x) : x_.gather(x);
      Scatter dxs = dx_.scatter(engine(), T{}, dx);
      Scatter dws = dw_.scatter(engine(), beta, dw);
      multiply(grad_input_, {.b = true}, T{1}, dys, ws, dxs);
      multiply(grad_weight_, {.a = true}, T{1}, xs, dys, dws);
      finish(xs, ws, dys, dxs, dws);
    }

   private:
    using Communicator = typename M::Communicator;
    using Engine = typename M::Engine;
    using Blocks = detail::Blocks<Communicator>;
    using Gather = detail::GatherBlocks<T, Communicator>;
    using Scatter = detail::ScatterSum<T, Communicator, Engine>;
    using Tiles = std::vector<detail::Tile>;

    /// One of the matrices: how its blocks come together, and room for them.
    class Side
    {
     public:
      /// @param block of op(A)
      Side(const Blocks& blocks, Op op, Shape block)
          : blocks_{blocks}, op_{op}, block_{block}, stored_{op_shape(op, block)},
            all_(rows_of(Scatter::part_room(blocks)) * stored_.cols),
            sum_(rows_of(Scatter::sum_room(blocks)) * stored_.cols)
      {
      }

      /// All blocks together.
      [[nodiscard]] Shape shape() const
      {
        const auto times = [this](Dimension d) { return blocks_.cut == d ? blocks_.count() : 1; };
        return {block_.rows * times(Dimension::rows), block_.cols * times(Dimension::cols)};
      }
      [[nodiscard]] detail::Pieces pieces() const { return blocks_.pieces(); }

      [[nodiscard]] Gather gather(In mine) { return {blocks_, gathered_, {mine, op_}, all()}; }
      [[nodiscard]] Gather kept(In mine) { return {blocks_, gathered_, {mine, op_}, In{all()}}; }
      [[nodiscard]] Scatter scatter(const Engine& engine, T beta, Out mine)
      {
        const Out sum{sum_.data(), {rows_of(Scatter::sum_room(blocks_)), stored_.cols}};
        return {blocks_, scattered_, engine, all(), sum, beta, {mine, op_}};
      }

     private:
      [[nodiscard]] std::size_t rows_of(std::size_t blocks) const { return blocks * stored_.rows; }
      [[nodiscard]] Out all()
      {
        return {all_.data(), {rows_of(Scatter::part_room(blocks_)), stored_.cols}};
      }

      Blocks blocks_;
      Op op_;
      Shape block_;
      Shape stored_;
      typename Engine::template Buffer<T> all_;
      typename Engine::template Buffer<T> sum_;
      detail::Requests<Communicator> gathered_;
      detail::Requests<Communicator> scattered_;
    };

    template <class MatrixRole>
    [[nodiscard]] Side side(Op op, Shape block) const
    {
      const auto travel = remote<typename Local::Input>() || remote<typename Local::Weight>() ||
                                  remote<typename Local::Output>()
                              ? detail::Travel::piecewise
                              : detail::Travel::whole;
      return {{along(typename MatrixRole::Meets{}), travel, MatrixRole::cut, op != Op::none},
              op,
              block};
    }
    template <class MatrixRole>
    [[nodiscard]] bool remote() const
    {
      return along(typename MatrixRole::Meets{}).remote();
    }
    template <class... A>
    [[nodiscard]] Communicator& along(Axes<A...>) const
    {
      return mesh_.template along<A...>();
    }
    [[nodiscard]] const Engine& engine() const { return mesh_.engine(); }

    struct Transposed
    {
      bool a = false;
      bool b = false;
    };

    /// C += alpha A B, tile by tile; each piece of C leaves once it is complete.
    void multiply(const Tiles& tiles, Transposed transposed, T alpha, Gather& as, Gather& bs,
                  Scatter& cs)
    {
      for (const auto& t : tiles)
      {
        const auto a =
            transposed.a ? as.part(t.a, t.inner, t.rows).t() : as.part(t.a, t.rows, t.inner);
        const auto b =
            transposed.b ? bs.part(t.b, t.cols, t.inner).t() : bs.part(t.b, t.inner, t.cols);
        cubist::multiply(engine(), alpha, a, b, t.first ? cs.part_beta() : T{1},
                         cs.part(t.c, t.rows, t.cols));
        if (t.last) cs.start(t.c);
      }
    }

    template <class... Travellers>
    static void finish(Travellers&... all)
    {
      (all.finish(), ...);
    }

    M mesh_;
    bool keep_;
    Side x_;
    Side w_;
    Side y_;
    Side dx_;
    Side dw_;
    Tiles forward_;
    Tiles grad_input_;
    Tiles grad_weight_;
  };
};

}  // namespace cubist
