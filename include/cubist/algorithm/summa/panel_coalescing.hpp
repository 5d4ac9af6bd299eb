// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Coalescing: multiplies several panels at a time if they are too thin for the gemm kernel:
//
//   [P_t P_t+1 …] (M, depth) times [Q_t; Q_t+1; …] (depth, N)
//
// Each panel is copied when it arrives. Each index of K costs a copy of M + N elements, beside the
// product's 2 M N operations. Measured: panels of depth 16, 2 x 3 ranks, M = N = 1536 in float,
// take 0.81 of the processor time; at depth 32 or more, nothing is gained
// (docs/decisions/0016-panel-depth.md).

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the depth up to which `panels` panels of `depth` each are coalesced, or 0 if they are
/// deep enough or there is only one.
[[nodiscard]] constexpr std::size_t coalesced_depth(std::size_t depth, std::size_t panels)
{
  constexpr std::size_t thin = 32;  // at this depth or more, copies cost what they gain
  constexpr std::size_t enough = 128;
  if (depth == 0 || depth >= thin || panels < 2) return 0;
  return depth * std::min(panels, enough / depth);
}

/// Buffers that hold several panels of P and Q one after the other, for products of one size.
template <class T, class E>
class PanelCoalescing
{
  using Buffer = typename E::template Buffer<T>;

 public:
  PanelCoalescing() = default;
  /// @param product the shape of the result  @param depth the total depth of the panels; 0 if none
  /// are added
  PanelCoalescing(Shape product, std::size_t depth)
      : product_{product},
        depth_{depth},
        p_buffer_(product.rows * depth),
        q_buffer_(depth * product.cols)
  {
  }

  [[nodiscard]] bool is_used() const { return depth_ > 0; }
  [[nodiscard]] bool is_full() const { return full_; }

  void clear()
  {
    used_ = 0;
    full_ = false;
  }

  /// Appends a panel of P and one of Q. All have the same depth, except the last.
  /// @pre !is_full()
  void add(const E& engine, Operand<const T> p_t, Operand<const T> q_t)
  {
    const std::size_t depth = p_t.cols();
    const auto p =
        matrix_like(p_t, enlarge(p_buffer_, product_.rows * depth_), {p_t.rows(), depth_});
    const auto q =
        matrix_like(q_t, enlarge(q_buffer_, depth_ * product_.cols), {depth_, q_t.cols()});
    engine.copy(p_t.stored(), p.block(0, used_, p_t.shape()).stored());
    engine.copy(q_t.stored(), q.block(used_, 0, q_t.shape()).stored());
    used_ += depth;
    p_ = p.block(0, 0, {p_t.rows(), used_});
    q_ = q.block(0, 0, {used_, q_t.cols()});
    full_ = used_ + depth > depth_;
  }

  /// The number of allocated bytes.
  [[nodiscard]] std::size_t bytes() const
  {
    return (p_buffer_.size() + q_buffer_.size()) * sizeof(T);
  }
  void release() { p_buffer_ = Buffer(0), q_buffer_ = Buffer(0); }

  /// Computes C = alpha [P …] [Q …] + beta C, and removes the panels.
  void multiply(const E& engine, T alpha, T beta, Operand<T> c)
  {
    cubist::multiply<E, T>(engine, alpha, p_, q_, beta, c);
    clear();
  }

 private:
  /// Returns a matrix in memory, stored transposed if the panel is.
  [[nodiscard]] static Operand<T> matrix_like(Operand<const T> panel, T* data, Shape shape)
  {
    return panel.with(MatrixView<T>{data, op_shape(panel.transposed(), shape)});
  }

  Shape product_;
  std::size_t depth_ = 0;
  Buffer p_buffer_ = Buffer(0);
  Buffer q_buffer_ = Buffer(0);
  Operand<const T> p_;
  Operand<const T> q_;
  std::size_t used_ = 0;
  bool full_ = false;
};

}  // namespace cubist::CUBIST_ABI::detail
