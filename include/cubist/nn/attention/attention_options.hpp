// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The options of attention (attention.hpp), and their defaults for the width of its input.

#include <cmath>
#include <cstddef>
#include <optional>

#include "cubist/core/error.hpp"
#include "cubist/model/attention_heads.hpp"
#include "cubist/model/rotary_scaling.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dropout.hpp"

namespace cubist::CUBIST_ABI
{

struct AttentionOptions
{
  std::size_t heads = 1;
  /// The number of key-value heads, each of which heads / key_value_heads query heads share; 0
  /// stands for `heads`.
  std::size_t key_value_heads = 0;
  /// The features of a head; 0 stands for the width divided by the number of heads.
  std::size_t head_size = 0;
  bool causal = true;  ///< whether a token sees only those before it, and itself
  /// The factor of the scores; 0 stands for 1/sqrt(head_size).
  double scale = 0;
  /// The base of the rotary angles; 0 stands for no rotation.
  double rotary_base = 0;
  /// How many elements at the beginning of a head are rotated; 0 stands for all.
  std::size_t rotary_size = 0;
  RotaryScaling rotary_scaling = {};  ///< the scaling of the rotation's frequencies
  /// Whether queries and keys each pass through a norm, head by head (head_norm.hpp).
  bool head_norms = false;
  double norm_epsilon = 1e-6;  ///< the epsilon of these norms
  /// The probability that a weight of softmax(scale Q K^T) is dropped while training.
  double dropout = 0;
  /// The options of the four linear layers, whose indices are linear.index and the three after it.
  LinearOptions linear = {};
  /// The initial weights of the last linear layer; by default like those of the other layers.
  std::optional<Initial> output_weights = {};
  /// Whether the last linear layer has a bias; by default it has one if the others do.
  std::optional<bool> output_bias = {};

  /// Returns the options with the defaults for this width filled in.
  /// @throws ShapeError for heads that do not fit the width or one another, ArgumentError for
  /// options out of range
  [[nodiscard]] AttentionOptions complete(std::size_t width) const
  {
    auto o = *this;
    const auto complete = detail::AttentionHeads{heads, key_value_heads, head_size}.complete(width);
    o.key_value_heads = complete.key_value_heads;
    o.head_size = complete.size;
    if (o.rotary_size == 0) o.rotary_size = o.head_size;
    require<ShapeError>(o.rotary_base == 0 || o.rotary_size % 2 == 0, "got ", o.rotary_size,
                        " rotated elements in a head, but elements rotate in pairs; use an even "
                        "number");
    require<ShapeError>(
        o.rotary_base == 0 || o.rotary_size <= o.head_size, "got ", o.rotary_size,
        " rotated elements of a head that has ", o.head_size,
        ", so elements of another head would be rotated; rotate no more than a head has");
    o.rotary_scaling.check();
    if (o.scale == 0) o.scale = 1 / std::sqrt(static_cast<double>(o.head_size));
    static_cast<void>(Dropout{o.dropout, o.linear.seed, o.linear.index});  // checks the probability
    return o;
  }
};

}  // namespace cubist::CUBIST_ABI
