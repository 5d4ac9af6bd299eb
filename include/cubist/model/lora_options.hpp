// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which layers of a network get two thin matrices beside their weight, and how they are used:
//
//   Y = X W + s (X A) B    A (in, r)    B (r, out)    s = alpha / r, or alpha / sqrt(r)
//
// W is frozen, and A and B are trained. nn/dense/lora.hpp computes it.
//
// Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", arXiv 2106.09685;
// Kalajdzievski, "A Rank Stabilization Scaling Factor for Fine-Tuning with LoRA", arXiv 2312.03732
// (the square root).

#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"

namespace cubist::CUBIST_ABI
{

struct LoraOptions
{
  std::size_t rank = 8;  ///< r, the columns of A and the rows of B
  double alpha = 8;      ///< s = alpha / r
  /// Whether s is alpha / sqrt(r): rsLoRA, which PEFT calls `use_rslora`.
  bool rank_stabilized = false;
  /// The probability that an element of X is dropped on its way to A while training.
  double dropout = 0;
  /// The layers that get A and B, by the names of their weights without ".weight", or by what
  /// follows a dot in these names, with * for any characters: {"query", "layers.0.*"}.
  std::vector<std::string> layers = std::vector<std::string>(1, "*");  // g++ 12 fails on {"*"}
  /// Whether layers that are one product (query, key and value; gate and up) share one A, like the
  /// adapter of one matrix that contains them all. If one of them gets a B, then all do.
  /// Transformers with learned positions do this, because GPT-2's files have such a matrix.
  bool shared_input = false;

  /// Returns s.
  [[nodiscard]] double scale() const
  {
    const auto r = static_cast<double>(rank);
    return alpha / (rank_stabilized ? std::sqrt(r) : r);
  }

  /// @throws ArgumentError for options out of range
  void check() const
  {
    require<ArgumentError>(
        rank > 0,
        "got a rank of 0 for LoRA, so A and B would have no elements and nothing "
        "would be trained; use a rank of at least 1, or make the network without LoraOptions");
    require<ArgumentError>(is_finite(alpha), "got an alpha of ", alpha,
                           " for LoRA, so every output would be NaN or infinite; use a finite "
                           "number");
    require<ArgumentError>(dropout >= 0 && dropout < 1, "got a dropout probability of ", dropout,
                           " for LoRA, which is not a probability or drops everything; use a "
                           "number in [0, 1)");
    require<ArgumentError>(!layers.empty(),
                           "got no layers for LoRA, so nothing would be trained; name some, as in "
                           "{\"query\", \"value\"}, or use {\"*\"} for all");
  }

  friend bool operator==(const LoraOptions&, const LoraOptions&) = default;
};

/// Whether a parameter of this name is an A or a B.
[[nodiscard]] inline bool is_of_lora(std::string_view name)
{
  return name.ends_with("lora_a") || name.ends_with("lora_b");
}

}  // namespace cubist::CUBIST_ABI
