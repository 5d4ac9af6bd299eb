// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Panels that are too thin for the gemm kernel are multiplied several at a time:
//
//   [P_t P_t+1 …] (M, depth) times [Q_t; Q_t+1; …] (depth, N)
//
// Each panel is copied when it arrives, M + N elements for each index of K, where its product is
// 2 M N operations. Measured: panels of depth 16, 2 x 3 ranks, M = N = 1536 in float, take 0.81 of
// the processor time; from depth 32 on nothing is gained (docs/decisions/0016-panel-depth.md).

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::detail
{

/// The depth up to which `panels` panels of `depth` each are coalesced; 0 if they are deep enough,
/// or if there is only one.
[[nodiscard]] constexpr std::size_t coalesced_depth(std::size_t depth, std::size_t panels)
{
  constexpr std::size_t thin = 32;  // from here on copies cost what they gain
  constexpr std::size_t enough = 128;
  if (depth == 0 || depth >= thin || panels < 2) return 0;
  return depth * std::min(panels, enough / depth);
}

/// The workspace of coalesced panels, which the plan owns.
template <class T, class E>
struct CoalescingBuffers
{
  CoalescingBuffers() = default;
  /// For products of (rows, cols).
  CoalescingBuffers(Shape product, std::size_t max_depth)
      : depth{max_depth}, p(product.rows * max_depth), q(max_depth * product.cols)
  {
  }

  std::size_t depth = 0;
  typename E::template Buffer<T> p = typename E::template Buffer<T>(0);
  typename E::template Buffer<T> q = typename E::template Buffer<T>(0);
};

template <class T, class E>
class PanelCoalescing
{
 public:
  PanelCoalescing(const E& engine, CoalescingBuffers<T, E>& buffers)
      : engine_{engine}, buffers_{buffers}
  {
  }

  /// Whether panels are coalesced at all.
  [[nodiscard]] bool is_used() const { return buffers_.depth > 0; }

  /// Copies a panel of P and one of Q behind those before. All have the same depth, but the last.
  /// @pre !is_full()
  void add(Operand<const T> p_t, Operand<const T> q_t)
  {
    const std::size_t depth = p_t.cols();
    const auto p = matrix_like(p_t, buffers_.p, {p_t.rows(), buffers_.depth});
    const auto q = matrix_like(q_t, buffers_.q, {buffers_.depth, q_t.cols()});
    engine_.copy(p_t.stored(), p.block(0, used_, p_t.shape()).stored());
    engine_.copy(q_t.stored(), q.block(used_, 0, q_t.shape()).stored());
    used_ += depth;
    p_ = p.block(0, 0, {p_t.rows(), used_});
    q_ = q.block(0, 0, {used_, q_t.cols()});
    full_ = used_ + depth > buffers_.depth;
  }

  [[nodiscard]] bool is_full() const { return full_; }

  /// C = alpha [P …] [Q …] + beta C, after which there are no panels.
  void multiply(T alpha, T beta, Operand<T> c)
  {
    cubist::multiply<E, T>(engine_, alpha, p_, q_, beta, c);
    used_ = 0;
    full_ = false;
  }

 private:
  /// A matrix in a buffer, stored transposed if the panel is.
  [[nodiscard]] static Operand<T> matrix_like(Operand<const T> panel,
                                              typename E::template Buffer<T>& buffer, Shape shape)
  {
    return panel.with(MatrixView<T>{buffer.data(), op_shape(panel.transposed(), shape)});
  }

  const E& engine_;
  CoalescingBuffers<T, E>& buffers_;
  Operand<const T> p_;
  Operand<const T> q_;
  std::size_t used_ = 0;
  bool full_ = false;
};

}  // namespace cubist::detail
