// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One matrix of a gather-multiply-scatter product: how its blocks are gathered or scattered, and
// the buffers for them, which each product reuses.

#include <cstddef>

#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <Scalar T, class C, class E>
class GatheredMatrix
{
  using In = MatrixView<const T>;
  using Out = MatrixView<T>;
  using Gather = GatherBlocks<T, C>;
  using Scatter = ScatterSum<T, C, E>;

 public:
  /// @param block the shape of this rank's block of op(A)
  GatheredMatrix(const Blocks<C>& blocks, Op op, Shape block)
      : blocks_{blocks},
        op_{op},
        block_{block},
        stored_{op_shape(op, block)},
        all_(Scatter::part_blocks(blocks) * stored_.size()),
        sum_(Scatter::sum_blocks(blocks) * stored_.size())
  {
  }

  /// The shape of the gathered matrix.
  [[nodiscard]] Shape shape() const
  {
    const auto times = [this](Dimension d) { return blocks_.cut == d ? blocks_.count() : 1; };
    return {block_.rows * times(Dimension::rows), block_.cols * times(Dimension::cols)};
  }
  [[nodiscard]] Pieces pieces() const { return blocks_.pieces(); }

  /// Starts to gather the blocks or, if they are `kept`, returns what the last call received.
  [[nodiscard]] Gather gather(In mine, bool kept = false)
  {
    return {blocks_, gathered_, {mine, op_}, all(), kept};
  }
  [[nodiscard]] Scatter scatter(const E& engine, T beta, Out mine)
  {
    return {blocks_, scattered_, engine, all(), blocks_in(sum_, Scatter::sum_blocks(blocks_)),
            beta,    {mine, op_}};
  }

  /// The number of allocated bytes.
  [[nodiscard]] std::size_t bytes() const { return (all_.size() + sum_.size()) * sizeof(T); }
  void release() { all_ = Buffer(0), sum_ = Buffer(0); }

 private:
  using Buffer = typename E::template Buffer<T>;

  [[nodiscard]] Out all() { return blocks_in(all_, Scatter::part_blocks(blocks_)); }
  /// Returns a view of blocks that are stacked in a buffer. After `release`, the next call
  /// allocates it.
  [[nodiscard]] Out blocks_in(Buffer& buffer, std::size_t blocks) const
  {
    const Shape shape{blocks * stored_.rows, stored_.cols};
    return {enlarge(buffer, shape.size()), shape};
  }

  Blocks<C> blocks_;
  Op op_;
  Shape block_;
  Shape stored_;
  Buffer all_ = Buffer(0);
  Buffer sum_ = Buffer(0);
  Requests<C> gathered_;
  Requests<C> scattered_;
};

}  // namespace cubist::CUBIST_ABI::detail
