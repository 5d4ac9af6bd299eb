// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A small transformer, and tokens for it.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "llama_like.hpp"

namespace cubist::test
{

/// A model with GPT-2's architecture, or with Llama's.
[[nodiscard]] inline TransformerConfig small_transformer(bool llama, std::size_t layers = 2)
{
  const TransformerConfig gpt2{.vocabulary = 13,
                               .positions = 8,
                               .width = 12,
                               .layers = layers,
                               .heads = 3,
                               .feed_forward = 20};
  return llama ? llama_like(gpt2) : gpt2;
}

/// Tokens for this model, which differ in each step.
[[nodiscard]] inline std::vector<int> small_batch(std::uint64_t step, std::size_t tokens)
{
  std::vector<int> ids;
  for (std::uint64_t i = 0; i < tokens; ++i)
    ids.push_back(static_cast<int>((i * i + step * i + 3 * step) % 13));
  return ids;
}

}  // namespace cubist::test
