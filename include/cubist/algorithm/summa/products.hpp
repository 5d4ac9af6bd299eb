// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The products of SUMMA, each from when its first panels travel until it is complete.
//
//   P (M, K), Q (K, N), R (M, N): rows [row] cols [col]
//
//   R = P Q    for each t: broadcast P_t along the row, Q_t along the column; R += P_t Q_t, thin
//              ones several at a time
//   P = R Q^T  for each t: broadcast Q_t along the column; reduce R Q_t^T to P_t's owner
//   Q = P^T R  for each t: broadcast P_t along the row; reduce P_t^T R to Q_t's owner
//
// The third is the second one transposed, Q^T = R^T P, with rows and columns of ranks swapped.

#include <cstddef>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/algorithm/summa/panel_coalescing.hpp"
#include "cubist/algorithm/summa/panels.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::detail
{

/// Where a rank multiplies, and how K is cut there.
template <class C, class E>
struct SummaPlace
{
  C& row;     // the ranks of this rank's row: panels of P travel here
  C& column;  // those of its column: panels of Q
  const E& engine;
  PanelCut p_cut;
  PanelCut q_cut;

  /// The place for the transposed product.
  [[nodiscard]] SummaPlace t() const { return {column, row, engine, q_cut, p_cut}; }
};

/// Room for the panels of both factors, and for a pile of thin ones.
template <class T, class E>
struct FactorPanels
{
  PanelBuffers<T, E> p;
  PanelBuffers<T, E> q;
  PileRoom<T, E> pile = {};
};

/// Room for the panels of one matrix, and for parts and sums of another.
template <class T, class E>
struct SumPanels
{
  PanelBuffers<T, E> factor;
  PanelBuffers<T, E> parts;
  PanelBuffers<T, E> sums;
};

/// R = alpha P Q + beta R
template <class T, class C, class E>
class MakeR
{
 public:
  MakeR(const SummaPlace<C, E>& at, FactorPanels<T, E>& room, T alpha, Operand<const T> p,
        Operand<const T> q, T beta, Operand<T> r)
      : at_{at}, alpha_{alpha}, ps_{at.row, at.engine, room.p, {p, Dimension::cols, at.p_cut}},
        qs_{at.column, at.engine, room.q, {q, Dimension::rows, at.q_cut}},
        pile_{at.engine, room.pile}, beta_{beta}, r_{r}
  {
  }

  /// Sends the first panels on their way.
  void start()
  {
    ps_.start();
    qs_.start();
  }
  void run()
  {
    const std::size_t count = at_.p_cut.count();
    T beta = beta_;
    for (std::size_t t = 0; t < count; ++t)
    {
      const Operand<const T> p_t = ps_[t];
      if (pile_.used())
      {
        pile_.add(p_t, qs_[t]);
        if (!pile_.full() && t + 1 < count) continue;
        pile_.multiply(alpha_, beta, r_);
      }
      else
        multiply(at_.engine, alpha_, p_t, qs_[t], beta, r_);
      beta = T{1};
    }
  }
  /// Waits for what is still under way.
  void finish()
  {
    ps_.finish();
    qs_.finish();
  }

 private:
  SummaPlace<C, E> at_;
  T alpha_;
  BroadcastPanels<T, C, E> ps_;
  BroadcastPanels<T, C, E> qs_;
  PanelCoalescing<T, E> pile_;
  T beta_;
  Operand<T> r_;
};

/// P = alpha R Q^T + beta P
template <class T, class C, class E>
class MakeP
{
 public:
  MakeP(const SummaPlace<C, E>& at, SumPanels<T, E>& room, T alpha, Operand<const T> r,
        Operand<const T> q, T beta, Operand<T> p)
      : at_{at}, alpha_{alpha}, r_{r}, qs_{at.column,
                                           at.engine,
                                           room.factor,
                                           {q, Dimension::rows, at.q_cut}},
        ps_{at.row, at.engine, room.parts, room.sums, beta, {p, Dimension::cols, at.p_cut}}
  {
  }

  void start() { qs_.start(); }
  void run()
  {
    for (std::size_t t = 0; t < at_.q_cut.count(); ++t)
    {
      const Operand<const T> q_t = qs_[t];
      multiply(at_.engine, alpha_, r_, q_t.t(), ps_.part_beta(), ps_[t]);
      ps_.start(t);
    }
  }
  void finish()
  {
    qs_.finish();
    ps_.finish();
  }

 private:
  SummaPlace<C, E> at_;
  T alpha_;
  Operand<const T> r_;
  BroadcastPanels<T, C, E> qs_;
  ReducePanels<T, C, E> ps_;
};

}  // namespace cubist::detail
