// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA with a stationary output, on the two axes of a mesh of r rows and c columns of ranks:
//
//   X (M, K) rows [.. row] cols [col]    W (K, N) rows [row] cols [col]    Y (M, N) as X
//
// K is cut into lcm(r, c) blocks; block t of X lies on one column of ranks, of W on one row. A
// panel is such a block or, where ranks are far apart, a slice of one.
//
//   Y  = X W     for each t: broadcast X_t along the row, W_t along the column; Y += X_t W_t
//   dX = dY W^T  for each t: broadcast W_t along the column; reduce dY W_t^T to X_t's owner
//   dW = X^T dY  for each t: broadcast X_t along the row; reduce X_t^T dY to W_t's owner
//
// Words: (c-1)/rc MK + (r-1)/rc KN a rank for each of the three.
// Source: van de Geijn, Watts, "SUMMA", 1997; Xu et al., "Optimus", arXiv 2104.05343, section 3.

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/scheme/panels.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist
{

template <class Row, class Col>
struct Summa
{
  template <Scalar T, class M>
  class Plan
  {
    using In = MatrixView<const T>;
    using Out = MatrixView<T>;

   public:
    Plan(const M& mesh, const LocalShapes& local, Gathered)
        : mesh_{mesh}, far_{row().remote() || column().remote()}, x_cut_{cut(cols(), local.x.cols)},
          w_cut_{cut(rows(), local.w.rows)}, x_{buffers({local.x.rows, x_cut_.depth})},
          w_{buffers({w_cut_.depth, local.w.cols})}, x_part_{buffers({local.x.rows, x_cut_.depth})},
          w_part_{buffers({w_cut_.depth, local.w.cols})},
          x_sum_{buffers({local.x.rows, x_cut_.depth})}, w_sum_{
                                                             buffers({w_cut_.depth, local.w.cols})}
    {
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      Broadcast xs{row(), engine(), x_, x_panels(x)};
      Broadcast ws{column(), engine(), w_, w_panels(w)};
      xs.start();
      ws.start();
      for (std::size_t t = 0; t < x_cut_.count(); ++t)
      {
        const In x_t = xs[t];
        engine().gemm(Op::none, Op::none, alpha, x_t, ws[t], t == 0 ? beta : T{1}, y);
      }
      finish(xs, ws);
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      Broadcast ws{column(), engine(), w_, w_panels(w)};
      Reduce dxs{row(), engine(), x_part_, x_sum_, beta, x_panels(dx)};
      grad_input(alpha, dy, ws, dxs);
      finish(ws, dxs);
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      Broadcast xs{row(), engine(), x_, x_panels(x)};
      Reduce dws{column(), engine(), w_part_, w_sum_, beta, w_panels(dw)};
      grad_weight(alpha, dy, xs, dws);
      finish(xs, dws);
    }

    /// Both gradients. The last sums of dX, and the first panels of X, travel while the other
    /// product's panels are multiplied.
    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      Broadcast ws{column(), engine(), w_, w_panels(w)};
      Broadcast xs{row(), engine(), x_, x_panels(x)};
      Reduce dxs{row(), engine(), x_part_, x_sum_, T{}, x_panels(dx)};
      Reduce dws{column(), engine(), w_part_, w_sum_, beta, w_panels(dw)};
      ws.start();
      xs.start();
      grad_input(T{1}, dy, ws, dxs);
      grad_weight(T{1}, dy, xs, dws);
      finish(ws, dxs, xs, dws);
    }

   private:
    using Engine = typename M::Engine;
    using Buffers = detail::PanelBuffers<T, Engine>;
    using Broadcast = detail::BroadcastPanels<T, typename M::Communicator, Engine>;
    using Reduce = detail::ReducePanels<T, typename M::Communicator, Engine>;

    // Deep enough for a BLAS to reach its speed, thin enough for the first to come soon.
    static constexpr std::size_t far_depth = 256;

    void grad_input(T alpha, In dy, Broadcast& ws, Reduce& dxs)
    {
      for (std::size_t t = 0; t < w_cut_.count(); ++t)
      {
        const In w_t = ws[t];
        engine().gemm(Op::none, Op::transpose, alpha, dy, w_t, T{}, dxs[t]);
        dxs.start(t);
      }
    }

    void grad_weight(T alpha, In dy, Broadcast& xs, Reduce& dws)
    {
      for (std::size_t t = 0; t < x_cut_.count(); ++t)
      {
        const In x_t = xs[t];
        engine().gemm(Op::transpose, Op::none, alpha, x_t, dy, T{}, dws[t]);
        dws.start(t);
      }
    }

    template <class... Travellers>
    static void finish(Travellers&... all)
    {
      (all.finish(), ...);
    }

    [[nodiscard]] const Engine& engine() const { return mesh_.engine(); }
    [[nodiscard]] std::size_t rows() const
    {
      return static_cast<std::size_t>(mesh_.template extent<Row>());
    }
    [[nodiscard]] std::size_t cols() const
    {
      return static_cast<std::size_t>(mesh_.template extent<Col>());
    }
    [[nodiscard]] auto& row() const { return mesh_.template along<Col>(); }
    [[nodiscard]] auto& column() const { return mesh_.template along<Row>(); }

    /// How `owners` ranks with `mine` of the indices of K each are cut into panels.
    [[nodiscard]] detail::PanelCut cut(std::size_t owners, std::size_t mine) const
    {
      const std::size_t blocks = std::lcm(rows(), cols());
      const std::size_t block = mine * owners / blocks;
      return {owners, blocks, block, far_ ? std::min(block, far_depth) : block};
    }
    [[nodiscard]] Buffers buffers(Shape panel) const { return {panel, far_ ? 4U : 2U}; }
    template <class V>
    [[nodiscard]] detail::Panels<V> x_panels(V x) const
    {
      return {x, detail::Panels<V>::Of::columns, x_cut_};
    }
    template <class V>
    [[nodiscard]] detail::Panels<V> w_panels(V w) const
    {
      return {w, detail::Panels<V>::Of::rows, w_cut_};
    }

    M mesh_;
    bool far_;
    detail::PanelCut x_cut_;
    detail::PanelCut w_cut_;
    Buffers x_;
    Buffers w_;
    Buffers x_part_;
    Buffers w_part_;
    Buffers x_sum_;
    Buffers w_sum_;
  };
};

}  // namespace cubist
