// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Panels that are too thin for the gemm kernel are multiplied several at a time:
//
//   [P_t P_t+1 …] (M, depth) times [Q_t; Q_t+1; …] (depth, N)
//
// A panel is copied to the pile as it comes, (M + N) words for each index of K, where its product
// is 2 M N operations. What is thin, and what is enough, is measured in
// docs/decisions/0016-panel-depth.md.

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::detail
{

/// Up to which depth panels are piled up, if they come in so many of `depth` each; 0 if they are
/// not, being deep enough or alone.
[[nodiscard]] constexpr std::size_t pile_depth(std::size_t depth, std::size_t panels)
{
  constexpr std::size_t thin = 32;  // from here on copies cost what they gain
  constexpr std::size_t enough = 128;
  if (depth == 0 || depth >= thin || panels < 2) return 0;
  return depth * std::min(panels, enough / depth);
}

/// Room for a pile; the plan's.
template <class T, class E>
struct PileRoom
{
  PileRoom() = default;
  /// For products of (rows, cols).
  PileRoom(Shape product, std::size_t deep)
      : depth{deep}, p(product.rows * deep), q(deep * product.cols)
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
  PanelCoalescing(const E& engine, PileRoom<T, E>& room) : engine_{engine}, room_{room} {}

  /// Whether panels are piled up at all.
  [[nodiscard]] bool used() const { return room_.depth > 0; }

  /// Adds panels of the same depth, below that of the room.
  /// @pre the pile is not full
  void add(Operand<const T> p_t, Operand<const T> q_t)
  {
    const std::size_t depth = p_t.cols();
    const auto p = whole(p_t, room_.p, {p_t.rows(), room_.depth});
    const auto q = whole(q_t, room_.q, {room_.depth, q_t.cols()});
    engine_.copy(p_t.stored(), p.block(0, used_, p_t.shape()).stored());
    engine_.copy(q_t.stored(), q.block(used_, 0, q_t.shape()).stored());
    used_ += depth;
    p_ = p.block(0, 0, {p_t.rows(), used_});
    q_ = q.block(0, 0, {used_, q_t.cols()});
    full_ = used_ + depth > room_.depth;
  }

  [[nodiscard]] bool full() const { return full_; }

  /// C = alpha [P …] [Q …] + beta C, after which the pile is empty.
  void multiply(T alpha, T beta, Operand<T> c)
  {
    cubist::multiply<E, T>(engine_, alpha, p_, q_, beta, c);
    used_ = 0;
    full_ = false;
  }

 private:
  /// A matrix in memory of its own, stored as the panel is.
  [[nodiscard]] static Operand<T> whole(Operand<const T> panel,
                                        typename E::template Buffer<T>& data, Shape shape)
  {
    return panel.with(MatrixView<T>{data.data(), op_shape(panel.transposed(), shape)});
  }

  const E& engine_;
  PileRoom<T, E>& room_;
  Operand<const T> p_;
  Operand<const T> q_;
  std::size_t used_ = 0;
  bool full_ = false;
};

}  // namespace cubist::detail
