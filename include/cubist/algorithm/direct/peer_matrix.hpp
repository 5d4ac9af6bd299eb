// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A matrix of which every rank exposes its block (comm/window.hpp), as a factor of products: pieces
// of it, or of its transpose, are read in place.

#include <optional>
#include <span>
#include <utility>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/operand.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <Scalar T, ExposesMemory C>
class PeerMatrix
{
 public:
  /// The matrix, or its transpose.
  struct Factor
  {
    PeerMatrix& matrix;
    bool transposed = false;

    [[nodiscard]] Factor t() const { return {matrix, !transposed}; }
    /// A piece of the block of `at.rank`; waits until it is exposed.
    /// @pre the matrix is read, or at.rank is this rank
    [[nodiscard]] Operand<const T> piece(Corner at, Shape shape) const
    {
      const auto stored = matrix.mine_.stored();
      const T* data = matrix.window_ ? (*matrix.window_)[at.rank].data() : stored.data();
      const auto block = matrix.mine_.with(MatrixView<const T>{data, stored.shape()});
      return (transposed ? block.t() : block).block(at.i, at.j, shape);
    }
  };

  /// @param read whether any rank reads another's block; if not, none is exposed and no rank waits
  PeerMatrix(C& world, Operand<const T> mine, bool read) : mine_{mine}
  {
    if (read) window_.emplace(world.expose(mine.stored().elements()));
  }

  [[nodiscard]] Factor all() { return {*this}; }
  /// Ends the reads of this rank; does not wait.
  void close()
  {
    if (window_) window_->close();
  }
  /// Waits until no rank reads this rank's block.
  void wait()
  {
    if (window_) window_->wait();
  }

 private:
  using Window = decltype(std::declval<C&>().expose(std::declval<std::span<const T>>()));

  Operand<const T> mine_;
  std::optional<Window> window_;
};

}  // namespace cubist::CUBIST_ABI::detail
