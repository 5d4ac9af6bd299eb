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
// innermost of the rows, so gathered blocks lie one behind the other in memory.
//
// Words: [(y-1) MK + (z-1) KN + (x-1) MN] / xyz a rank for each of the three. `backward` gathers dY
// once for both gradients, and takes gathered X and W from forward if they are kept: the same
// number again, or [(y-1) MK + (z-1) KN] / xyz more if they are not. Source: Bian et al.,
// "Maximizing Parallelism in Distributed Training for Huge Neural Networks", arXiv 2105.14450,
// section 3.1; MindSpore, High Dimension Tensor Parallel.

#include <cstddef>
#include <optional>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/scheme/panels.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

namespace detail
{

/// A matrix whose blocks of rows along `along` are on their way together.
template <class T, class C>
class GatherRows
{
 public:
  GatherRows(C& along, MatrixView<const T> mine, MatrixView<T> all)
      : all_{along.size() == 1 ? mine : MatrixView<const T>{all}}
  {
    if (along.size() > 1) request_ = along.async_all_gather(mine.elements(), all.elements());
  }
  /// One that is here already.
  explicit GatherRows(MatrixView<const T> all) : all_{all} {}

  [[nodiscard]] MatrixView<const T> wait()
  {
    if (request_) request_->wait();
    request_.reset();
    return all_;
  }

 private:
  MatrixView<const T> all_;
  std::optional<RequestOf<C>> request_;
};

/// A matrix that everyone along `along` has a part of: its sum is scattered by blocks of rows, each
/// block becoming the sum + beta times what it was.
template <class T, class C, class E>
class ScatterSum
{
 public:
  ScatterSum(C& along, const E& engine, MatrixView<T> part, MatrixView<T> sum, T beta,
             MatrixView<T> mine)
      : along_{along}, engine_{engine}, part_{part}, sum_{beta == T{} ? mine : sum}, beta_{beta},
        mine_{mine}
  {
  }

  /// Where, and onto how much of it, this rank's part is to be written.
  [[nodiscard]] MatrixView<T> part() const { return along_.size() == 1 ? mine_ : part_; }
  [[nodiscard]] T part_beta() const { return along_.size() == 1 ? beta_ : T{}; }

  void start()
  {
    if (along_.size() > 1)
      request_ =
          along_.async_reduce_scatter(MatrixView<const T>{part_}.elements(), sum_.elements());
  }

  void wait()
  {
    if (!request_) return;
    request_->wait();
    request_.reset();
    if (beta_ == T{}) return;
    engine_.map(
        mine_, [beta = beta_](T s, T y) { return s + beta * y; }, MatrixView<const T>{sum_},
        MatrixView<const T>{mine_});
  }

 private:
  C& along_;
  const E& engine_;
  MatrixView<T> part_;
  MatrixView<T> sum_;
  T beta_;
  MatrixView<T> mine_;
  std::optional<RequestOf<C>> request_;
};

}  // namespace detail

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
        : mesh_{mesh}, keep_{policy == Gathered::kept}, x_{gathered<Y>(local.x)}, w_{gathered<Z>(
                                                                                      local.w)},
          y_{gathered<X>(local.y)}, dx_{gathered<Y>(local.x)}, dw_{gathered<Z>(local.w)}
    {
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      product<Y, Z, X>(Op::none, x, x_, Op::none, w, w_, alpha, beta, y, y_);
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      product<X, Z, Y>(Op::none, dy, y_, Op::transpose, w, w_, alpha, beta, dx, dx_);
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      product<Y, X, Z>(Op::transpose, x, x_, Op::none, dy, y_, alpha, beta, dw, dw_);
    }

    /// Both gradients; if gathered operands are kept, X and W are those of the last forward. The
    /// sum of dX travels while dW is multiplied.
    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      Gather dys{along<X>(), dy, y_.view()};
      Gather ws = keep_ ? kept<Z>(w, w_) : Gather{along<Z>(), w, w_.view()};
      Gather xs = keep_ ? kept<Y>(x, x_) : Gather{along<Y>(), x, x_.view()};
      Scatter dxs = scatter<Y>(dx_, T{}, dx);
      Scatter dws = scatter<Z>(dw_, beta, dw);
      engine().gemm(Op::none, Op::transpose, T{1}, dys.wait(), ws.wait(), dxs.part_beta(),
                    dxs.part());
      dxs.start();
      engine().gemm(Op::transpose, Op::none, T{1}, xs.wait(), dys.wait(), dws.part_beta(),
                    dws.part());
      dws.start();
      dxs.wait();
      dws.wait();
    }

   private:
    using Communicator = typename M::Communicator;
    using Engine = typename M::Engine;
    using Gather = detail::GatherRows<T, Communicator>;
    using Scatter = detail::ScatterSum<T, Communicator, Engine>;

    /// Room for a gathered matrix, and for this rank's block of its sum.
    struct Workspace
    {
      Workspace(Shape all, Shape mine)
          : all_shape{all}, mine_shape{mine}, all_data(all.size()), sum_data(mine.size())
      {
      }
      [[nodiscard]] Out view() { return {all_data.data(), all_shape}; }
      [[nodiscard]] Out sum() { return {sum_data.data(), mine_shape}; }

      Shape all_shape;
      Shape mine_shape;
      typename Engine::template Buffer<T> all_data;
      typename Engine::template Buffer<T> sum_data;
    };

    template <class A>
    [[nodiscard]] Communicator& along() const
    {
      return mesh_.template along<A>();
    }
    [[nodiscard]] const Engine& engine() const { return mesh_.engine(); }

    template <class A>
    [[nodiscard]] Workspace gathered(Shape mine) const
    {
      const auto extent = static_cast<std::size_t>(mesh_.template extent<A>());
      return {{mine.rows * extent, mine.cols}, mine};
    }

    template <class A>
    [[nodiscard]] Gather kept(In mine, Workspace& all)
    {
      return Gather{along<A>().size() == 1 ? mine : In{all.view()}};
    }

    template <class A>
    [[nodiscard]] Scatter scatter(Workspace& w, T beta, Out mine)
    {
      return {along<A>(), engine(), w.view(), w.sum(), beta, mine};
    }

    /// C = alpha op(A) op(B) + beta C: A gathered along GatherA, B along GatherB, C scattered along
    /// ScatterC.
    template <class GatherA, class GatherB, class ScatterC>
    void product(Op op_a, In a, Workspace& a_all, Op op_b, In b, Workspace& b_all, T alpha, T beta,
                 Out c, Workspace& c_all)
    {
      Gather as{along<GatherA>(), a, a_all.view()};
      Gather bs{along<GatherB>(), b, b_all.view()};
      Scatter cs = scatter<ScatterC>(c_all, beta, c);
      engine().gemm(op_a, op_b, alpha, as.wait(), bs.wait(), cs.part_beta(), cs.part());
      cs.start();
      cs.wait();
    }

    M mesh_;
    bool keep_;
    Workspace x_;
    Workspace w_;
    Workspace y_;
    Workspace dx_;
    Workspace dw_;
  };
};

}  // namespace cubist
