// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One matrix of a gather-multiply-scatter product: how its blocks are gathered or scattered, and
// the buffers for them, which are used again for each product.

#include <cstddef>

#include "cubist/algorithm/gather/pieces.hpp"
#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"

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
  /// @param block of op(A)
  GatheredMatrix(const Blocks<C>& blocks, Op op, Shape block)
      : blocks_{blocks}, op_{op}, block_{block}, stored_{op_shape(op, block)},
        all_(rows_in(Scatter::part_blocks(blocks)) * stored_.cols),
        sum_(rows_in(Scatter::sum_blocks(blocks)) * stored_.cols)
  {
  }

  /// The shape of all blocks together.
  [[nodiscard]] Shape shape() const
  {
    const auto times = [this](Dimension d) { return blocks_.cut == d ? blocks_.count() : 1; };
    return {block_.rows * times(Dimension::rows), block_.cols * times(Dimension::cols)};
  }
  [[nodiscard]] Pieces pieces() const { return blocks_.pieces(); }

  /// Starts to gather.
  [[nodiscard]] Gather gather(In mine) { return {blocks_, gathered_, {mine, op_}, all()}; }
  /// What the last call of `gather` received.
  [[nodiscard]] Gather kept(In mine) { return {blocks_, gathered_, {mine, op_}, In{all()}}; }
  [[nodiscard]] Scatter scatter(const E& engine, T beta, Out mine)
  {
    const Out sum{sum_.data(), {rows_in(Scatter::sum_blocks(blocks_)), stored_.cols}};
    return {blocks_, scattered_, engine, all(), sum, beta, {mine, op_}};
  }

 private:
  [[nodiscard]] std::size_t rows_in(std::size_t blocks) const { return blocks * stored_.rows; }
  [[nodiscard]] Out all()
  {
    return {all_.data(), {rows_in(Scatter::part_blocks(blocks_)), stored_.cols}};
  }

  Blocks<C> blocks_;
  Op op_;
  Shape block_;
  Shape stored_;
  typename E::template Buffer<T> all_;
  typename E::template Buffer<T> sum_;
  Requests<C> gathered_;
  Requests<C> scattered_;
};

}  // namespace cubist::CUBIST_ABI::detail
