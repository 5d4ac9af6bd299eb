// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA with a stationary output, on the two axes of a mesh of r rows and c columns of ranks:
//
//   X (M, K) rows [.. row] cols [col]    W (K, N) rows [row] cols [col]    Y (M, N) as X
//
// K is cut into lcm(r, c) panels; panel t of X lies on one column of ranks, of W on one row.
//
//   Y  = X W     for each t: broadcast X_t along the row, W_t along the column; Y += X_t W_t
//   dX = dY W^T  for each t: broadcast W_t along the column; reduce dY W_t^T to X_t's owner
//   dW = X^T dY  for each t: broadcast X_t along the row; reduce X_t^T dY to W_t's owner
//
// Words: (c-1)/rc MK + (r-1)/rc KN a rank for each of the three.
// Source: van de Geijn, Watts, "SUMMA", 1997; Xu et al., "Optimus", arXiv 2104.05343, section 3.

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
        : mesh_{mesh}, panels_{std::lcm(rows(), cols())}, depth_{local.x.cols * cols() / panels_},
          x_shape_{local.x.rows, depth_}, w_shape_{depth_, local.w.cols}, x_{x_shape_},
          w_{w_shape_}, x_sum_{x_shape_}, w_sum_{w_shape_}
    {
    }

    /// Y = alpha X W + beta Y
    void forward(T alpha, In x, In w, T beta, Out y)
    {
      BroadcastPanels xs{row(), engine(), x_};
      BroadcastPanels ws{column(), engine(), w_};
      const auto start = [&](std::size_t t) {
        xs.start(t, x_owner(t), x_panel(x, t));
        ws.start(t, w_owner(t), w_panel(w, t));
      };
      start(0);
      for (std::size_t t = 0; t < panels_; ++t)
      {
        if (t + 1 < panels_) start(t + 1);
        engine().gemm(Op::none, Op::none, alpha, xs[t], ws[t], t == 0 ? beta : T{1}, y);
      }
      xs.finish();
      ws.finish();
    }

    /// dX = alpha dY W^T + beta dX
    void grad_input(T alpha, In dy, In w, T beta, Out dx)
    {
      BroadcastPanels ws{column(), engine(), w_};
      ReducePanels dxs{row(), engine(), x_, x_sum_, beta};
      ws.start(0, w_owner(0), w_panel(w, 0));
      for (std::size_t t = 0; t < panels_; ++t)
      {
        if (t + 1 < panels_) ws.start(t + 1, w_owner(t + 1), w_panel(w, t + 1));
        engine().gemm(Op::none, Op::transpose, alpha, dy, ws[t], T{}, dxs[t]);
        dxs.start(t, x_owner(t), x_panel(dx, t));
      }
      ws.finish();
      dxs.finish();
    }

    /// dW = alpha X^T dY + beta dW
    void grad_weight(T alpha, In x, In dy, T beta, Out dw)
    {
      BroadcastPanels xs{row(), engine(), x_};
      ReducePanels dws{column(), engine(), w_, w_sum_, beta};
      xs.start(0, x_owner(0), x_panel(x, 0));
      for (std::size_t t = 0; t < panels_; ++t)
      {
        if (t + 1 < panels_) xs.start(t + 1, x_owner(t + 1), x_panel(x, t + 1));
        engine().gemm(Op::transpose, Op::none, alpha, xs[t], dy, T{}, dws[t]);
        dws.start(t, w_owner(t), w_panel(dw, t));
      }
      xs.finish();
      dws.finish();
    }

    void backward(In x, In w, In dy, Out dx, Out dw, T beta)
    {
      grad_input(T{1}, dy, w, T{}, dx);
      grad_weight(T{1}, x, dy, beta, dw);
    }

   private:
    using Engine = typename M::Engine;
    using Buffers = detail::PanelBuffers<T, Engine>;
    using BroadcastPanels = detail::BroadcastPanels<T, typename M::Communicator, Engine>;
    using ReducePanels = detail::ReducePanels<T, typename M::Communicator, Engine>;

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

    [[nodiscard]] int x_owner(std::size_t t) const
    {
      return static_cast<int>(t * cols() / panels_);
    }
    [[nodiscard]] int w_owner(std::size_t t) const
    {
      return static_cast<int>(t * rows() / panels_);
    }
    template <class V>
    [[nodiscard]] V x_panel(V x, std::size_t t) const
    {
      return x.block(0, t % (panels_ / cols()) * depth_, x_shape_);
    }
    template <class V>
    [[nodiscard]] V w_panel(V w, std::size_t t) const
    {
      return w.block(t % (panels_ / rows()) * depth_, 0, w_shape_);
    }

    M mesh_;
    std::size_t panels_;
    std::size_t depth_;
    Shape x_shape_;
    Shape w_shape_;
    Buffers x_;
    Buffers w_;
    Buffers x_sum_;
    Buffers w_sum_;
  };
};

}  // namespace cubist
