// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "cubist/plan/model.hpp"

namespace cubist::test
{

/// A training step of a small model. Its logits cost next to nothing, so stages with equal numbers
/// of blocks cost the same.
[[nodiscard]] inline TransformerStep eight_blocks(std::size_t sequences)
{
  const TransformerConfig model{.vocabulary = 8,
                                .positions = 64,
                                .width = 256,
                                .layers = 8,
                                .heads = 8,
                                .learned_positions = false,
                                .bias = false,
                                .tied = false};
  return {model, {.sequences = sequences, .length = 64}};
}

}  // namespace cubist::test
