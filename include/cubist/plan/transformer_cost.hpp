// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counts the elements that ranks send for a transformer on any scheme, derived from the layouts of
// the scheme and the costs of its products (cost.hpp). Names with `words` count elements. A new
// scheme needs no code here.
//
//   X, residual stream (M, d) S::Input    M = B S: sequences of S tokens, row b S + s
//   queries, keys, values (M, N) S::Output, one product; attention is local
//   hidden activations (M, F) S::Output
//
// The parts of a block that send something:
//
//   norm        all_reduce of 2 numbers per row (RMSNorm: 1) along the axes that cut X's columns,
//               forward and backward; of the gradients of its weight and bias along those that cut
//               X's rows
//   Q, K, V     one product of S, N = N_q + N_k + N_v, each padded
//   head norms  all_reduce of the gradients of their two weights along the axes that cut Q
//   output      product of S::Next
//   norm
//   up          product of S, merged with the gate
//   down        product of S::Next
//   biases      all_reduce of the gradient along the axes that cut Y's rows
//   attention   if ranks share sequences: the keys and values of their rows
//               (ring_words in matrix/sequence_cut.hpp)
//
// After the blocks come a norm, the logits (a product of S), and the loss, which all-reduces 2
// numbers per row along the axes that cut the logits' columns, and 3 over all ranks. With many
// tokens, the gradient of a table that is not tied is all-reduced over replicas, as a tied one is
// as the logits' weight. For the other elements that the embedding sends, there is only an upper
// bound. Backward of a product computes dX and dW together.
//
// With LoRA beside all linear layers (plan/lora_cost.hpp), backward computes no dW, and sums only
// the gradients of A and B. It ends with the gradients of the first block's Q, K and V.

#include <cstddef>
#include <cstdint>

#include "cubist/plan/cost.hpp"
#include "cubist/plan/lora_cost.hpp"
#include "cubist/plan/model.hpp"
#include "cubist/plan/transformer_parts.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The elements that all ranks send in total.
struct TransformerWords
{
  std::uint64_t forward = 0;
  std::uint64_t backward = 0;
  /// An upper bound for the elements of rows that the embedding sends, in both directions, and of
  /// the gradients of positions.
  std::uint64_t embedding = 0;

  friend constexpr bool operator==(const TransformerWords&, const TransformerWords&) = default;
};

/// Returns the elements that all ranks send for one block by collectives.
/// @param context_parallel the number of ranks that share a sequence, as in TransformerOptions
/// @param lora  the rank of LoRA's matrices beside all linear layers; 0: all weights are trained
/// @pre S::fits(extents)
/// @throws what TransformerConfig::completed() throws
template <SchemeType S>
[[nodiscard]] TransformerWords block_words(const typename S::Axes::Array& extents, TokenBatch batch,
                                           const TransformerConfig& model,
                                           Gathered policy = Gathered::kept,
                                           std::size_t context_parallel = 0, std::size_t lora = 0)
{
  const TransformerParts<S> parts{extents, batch, model, context_parallel};
  const std::uint64_t statistics = 2 * parts.norm_statistics().words;
  TransformerWords words{.forward = statistics + parts.ring_words(false),
                         .backward = statistics + parts.ring_words(true)};
  if (lora == 0)
    words.backward += 2 * parts.norm_gradients().words + 2 * parts.head_norm_gradient().words;
  for (const auto& p : parts.products())
  {
    const auto of_all = [&](const Work& work) { return work.words_of_all(parts.ranks()); };
    const Cost c = parts.cost(p, policy);
    words.forward += of_all(c.forward);
    words.backward +=
        lora == 0 ? of_all(c.backward) + parts.bias_sum(p).words : of_all(c.backward_input);
    if (lora > 0)
      detail::for_lora(
          parts, p, lora,
          [&](const LoraCost& thin) {
            words.forward += of_all(thin.forward);
            words.backward += of_all(thin.backward) + of_all(thin.sum_a);
          },
          [&](const LoraCost& thin) { words.backward += of_all(thin.sum_b); });
  }
  return words;
}

/// Returns the elements that all ranks send for the whole model: its blocks, the last norm, the
/// logits and the loss. The embedding is counted separately.
/// @pre S::fits(extents)
/// @throws what TransformerConfig::completed() throws
template <SchemeType S>
[[nodiscard]] TransformerWords
transformer_words(const typename S::Axes::Array& extents, TokenBatch batch,
                  const TransformerConfig& model, Gathered policy = Gathered::kept,
                  std::size_t context_parallel = 0, std::size_t lora = 0)
{
  const TransformerParts<S> parts{extents, batch, model, context_parallel};
  const auto block = block_words<S>(extents, batch, model, policy, context_parallel, lora);
  const Cost logits = parts.cost(parts.logits(), policy);
  const std::uint64_t statistics = parts.norm_statistics().words;
  const std::uint64_t forward = model.layers * block.forward + statistics +
                                logits.forward.words_of_all(parts.ranks()) +
                                2 * parts.loss_statistics().words + parts.loss_mean().words;
  if (lora > 0)
  {
    // Backward leaves out dX of the first block's Q, K and V, and the norm before them. That norm
    // cancels out the last one, which the blocks do not count.
    const Cost first = parts.cost(parts.products()[0], policy);
    return {.forward = forward,
            .backward = model.layers * block.backward +
                        logits.backward_input.words_of_all(parts.ranks()) -
                        first.backward_input.words_of_all(parts.ranks()),
            .embedding = parts.embedding_words()};
  }
  return {.forward = forward,
          .backward = model.layers * block.backward + statistics + parts.norm_gradients().words +
                      logits.backward.words_of_all(parts.ranks()) +
                      (model.tied ? 0 : parts.table_gradient().words),
          .embedding = parts.embedding_words() + parts.embedding_gradient_words() +
                       parts.position_gradients().words};
}

}  // namespace cubist::CUBIST_ABI
