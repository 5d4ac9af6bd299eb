// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The products of SUMMA, from the broadcast of the first panels until the result is complete.
//
//   P (M, K), Q (K, N), R (M, N): rows [row] cols [col]
//
//   R = P Q    for each t: broadcast P_t along the row, Q_t along the column; R += P_t Q_t, thin
//              panels several at a time (panel_coalescing.hpp)
//   P = R Q^T  for each t: broadcast Q_t along the column; reduce R Q_t^T to P_t's owner
//   Q = P^T R  for each t: broadcast P_t along the row; reduce P_t^T R to Q_t's owner
//
// Local names say how a matrix is cut, as in Elemental: p_row_star is a panel of P whose rows are
// cut by row, and which every rank of the row holds. The loops of Elemental's Gemm read
//
//   P1[row, *] <- P1[row, col];  Q1[*, col] <- Q1[row, col];  R[row, col] += P1[row, *] Q1[*, col]
//
// The next panels are in flight while one is multiplied (panels.hpp). The third product is computed
// as the transpose of the second, Q^T = R^T P, with rows and columns of ranks swapped.

#include <cstddef>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/algorithm/summa/panel_coalescing.hpp"
#include "cubist/algorithm/summa/panels.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// This rank's row and column of ranks, and how K is cut into panels along them.
template <class C, class E>
struct SummaGrid
{
  C& row;     // the ranks of this rank's row, among which panels of P are sent
  C& column;  // the ranks of its column, among which panels of Q are sent
  const E& engine;
  PanelCut p_cut;
  PanelCut q_cut;

  /// The grid of the transposed product.
  [[nodiscard]] SummaGrid t() const { return {column, row, engine, q_cut, p_cut}; }
};

/// Buffers for the panels of both factors.
template <class T, class E>
struct FactorBuffers
{
  PanelBuffers<T, E> p;
  PanelBuffers<T, E> q;
  PanelCoalescing<T, E> coalesced = {};

  [[nodiscard]] std::size_t bytes() const { return p.bytes() + q.bytes() + coalesced.bytes(); }
  void release() { p.release(), q.release(), coalesced.release(); }
};

/// Buffers for the panels of one factor, and for parts and sums of the result.
template <class T, class E>
struct SumBuffers
{
  PanelBuffers<T, E> factor;
  PanelBuffers<T, E> parts;
  PanelBuffers<T, E> sums;

  [[nodiscard]] std::size_t bytes() const { return factor.bytes() + parts.bytes() + sums.bytes(); }
  void release() { factor.release(), parts.release(), sums.release(); }
};

/// The product R = alpha P Q + beta R.
template <class T, class C, class E>
class ProductR
{
 public:
  ProductR(const SummaGrid<C, E>& grid, FactorBuffers<T, E>& buffers, T alpha, Operand<const T> p,
           Operand<const T> q, T beta, Operand<T> r)
      : grid_{grid},
        alpha_{alpha},
        ps_along_row_{grid.row, grid.engine, buffers.p, {p, Dimension::cols, grid.p_cut}},
        qs_along_column_{grid.column, grid.engine, buffers.q, {q, Dimension::rows, grid.q_cut}},
        coalescing_{buffers.coalesced},
        beta_{beta},
        r_row_col_{r}
  {
  }

  /// Starts to broadcast the first panels.
  void start()
  {
    ps_along_row_.start();
    qs_along_column_.start();
  }
  void run()
  {
    const std::size_t count = grid_.p_cut.count();
    coalescing_.clear();
    for (std::size_t t = 0; t < count; ++t)
    {
      const auto p_row_star = ps_along_row_.broadcast(t);
      const auto q_star_col = qs_along_column_.broadcast(t);
      add_product(p_row_star, q_star_col, t + 1 == count);
    }
  }
  /// Waits for the requests in flight.
  void finish()
  {
    ps_along_row_.finish();
    qs_along_column_.finish();
  }

 private:
  /// Computes R += alpha P_t Q_t, at once or together with neighbouring panels.
  void add_product(Operand<const T> p_row_star, Operand<const T> q_star_col, bool is_last)
  {
    if (!coalescing_.is_used())
      multiply(grid_.engine, alpha_, p_row_star, q_star_col, beta_, r_row_col_);
    else
    {
      coalescing_.add(grid_.engine, p_row_star, q_star_col);
      if (!coalescing_.is_full() && !is_last) return;
      coalescing_.multiply(grid_.engine, alpha_, beta_, r_row_col_);
    }
    beta_ = T{1};
  }

  SummaGrid<C, E> grid_;
  T alpha_;
  BroadcastPanels<T, C, E> ps_along_row_;
  BroadcastPanels<T, C, E> qs_along_column_;
  PanelCoalescing<T, E>& coalescing_;
  T beta_;  // the beta of the next product that is added to R
  Operand<T> r_row_col_;
};

/// The product P = alpha R Q^T + beta P.
template <class T, class C, class E>
class ProductP
{
 public:
  ProductP(const SummaGrid<C, E>& grid, SumBuffers<T, E>& buffers, T alpha, Operand<const T> r,
           Operand<const T> q, T beta, Operand<T> p)
      : grid_{grid},
        alpha_{alpha},
        r_row_col_{r},
        qs_along_column_{
            grid.column, grid.engine, buffers.factor, {q, Dimension::rows, grid.q_cut}},
        ps_along_row_{grid.row,     grid.engine, buffers.parts,
                      buffers.sums, beta,        {p, Dimension::cols, grid.p_cut}}
  {
  }

  void start() { qs_along_column_.start(); }
  void run()
  {
    for (std::size_t t = 0; t < grid_.q_cut.count(); ++t)
    {
      const auto q_star_col = qs_along_column_.broadcast(t);
      const auto p_row_star = ps_along_row_.part(t);  // this rank's part of the sum over the row
      multiply(grid_.engine, alpha_, r_row_col_, q_star_col.t(), ps_along_row_.part_beta(),
               p_row_star);
      ps_along_row_.reduce(t);
    }
  }
  void finish()
  {
    qs_along_column_.finish();
    ps_along_row_.finish();
  }

 private:
  SummaGrid<C, E> grid_;
  T alpha_;
  Operand<const T> r_row_col_;
  BroadcastPanels<T, C, E> qs_along_column_;
  ReducePanels<T, C, E> ps_along_row_;
};

}  // namespace cubist::CUBIST_ABI::detail
