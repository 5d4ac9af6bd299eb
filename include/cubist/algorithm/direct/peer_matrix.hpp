// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A matrix of which every rank exposes its block (comm/window.hpp), as a factor of products: pieces
// of it or of its transpose are read where they lie.

#include <optional>
#include <span>
#include <utility>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::detail
{

template <Scalar T, ExposesMemory C>
class PeerMatrix
{
 public:
  /// The matrix, or its transpose.
  struct Factor
  {
    PeerMatrix& lent;
    bool transposed = false;

    [[nodiscard]] Factor t() const { return {lent, !transposed}; }
    /// A piece of the block of `at.rank`; waits until that is lent.
    /// @pre the matrix is read, or at.rank is this rank
    [[nodiscard]] Operand<const T> piece(Corner at, Shape shape) const
    {
      const auto stored = lent.mine_.stored();
      const T* data = lent.loan_ ? (*lent.loan_)[at.rank].data() : stored.data();
      const auto block = lent.mine_.with(MatrixView<const T>{data, stored.shape()});
      return (transposed ? block.t() : block).block(at.i, at.j, shape);
    }
  };

  /// @param read whether any rank reads another's block; if not, none is lent, and nobody waits
  PeerMatrix(C& world, Operand<const T> mine, bool read) : mine_{mine}
  {
    if (read) loan_.emplace(world.expose(mine.stored().elements()));
  }

  [[nodiscard]] Factor all() { return {*this}; }
  /// This rank reads no more; it does not wait.
  void close()
  {
    if (loan_) loan_->close();
  }
  /// Until no rank reads this rank's block.
  void wait()
  {
    if (loan_) loan_->wait();
  }

 private:
  using Window = decltype(std::declval<C&>().expose(std::declval<std::span<const T>>()));

  Operand<const T> mine_;
  std::optional<Window> loan_;
};

}  // namespace cubist::detail
