// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sequences of tokens with labels, and the removal of their padding.
//
// Attention is causal, so tokens after the last label of a text do not change the loss. Positions
// that are padding in all texts are left out. Elsewhere 0 replaces padding ids that the vocabulary
// does not have, so they may be any numbers. Other padding stays, because ranks whose labels differ
// must compute on the same ids until the loss finds the difference.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cubist/comm/reduction.hpp"
#include "cubist/core/error.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/model/transformer_config.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the number of sequences of `length` tokens each.
/// @throws ShapeError unless all sequences are whole
[[nodiscard]] inline std::size_t count_sequences(std::size_t tokens, std::size_t length)
{
  require<ShapeError>(length > 0 && tokens > 0 && tokens % length == 0, "got ", tokens,
                      " tokens in sequences of ", length,
                      ", so the last one is incomplete; give whole sequences");
  return tokens / length;
}

/// @throws ArgumentError for more tokens per sequence than the model has positions, or than its
/// sliding window holds
inline void require_positions(const TransformerConfig& config, std::size_t tokens)
{
  require<ArgumentError>(
      config.window == 0 || tokens <= config.window, "got sequences of ", tokens,
      " tokens for a model with a sliding window of ", config.window,
      " tokens, but cubist computes attention to all tokens, so results would differ from the "
      "model's; use sequences that are no longer than the window");
  require<ArgumentError>(tokens <= config.positions, "got sequences of ", tokens,
                         " tokens for a model of ", config.positions,
                         " positions, so the last tokens would have none; use shorter sequences");
}

/// Sequences, one after the other, and their labels.
struct TokenBatch
{
  std::span<const int> ids, labels;
  std::size_t sequence;
};

/// Removes padding from batches, in buffers that all batches share.
class PaddingRemover
{
 public:
  /// Returns the batch, cut after the last label in any of its texts; the ranks of the mesh agree
  /// where that is. A batch that the loss refuses stays as it is.
  template <class M>
  [[nodiscard]] TokenBatch without_padding(const M& mesh, const TokenBatch& batch,
                                           std::size_t vocabulary)
  {
    const auto& [ids, labels, sequence] = batch;
    const bool fits = sequence > 0 && ids.size() % sequence == 0 && labels.size() == ids.size();
    if (!fits || !mesh.active()) return batch;
    const std::uint64_t mine = tokens_up_to_labels(labels, sequence);
    const std::size_t needed =
        std::min<std::size_t>(all_reduced(mesh, mine, ReduceOp::max), sequence);
    const auto is_token = [&](int id) {
      return id >= 0 && static_cast<std::size_t>(id) < vocabulary;
    };
    ids_.clear(), labels_.clear();
    for (std::size_t first = 0; first < ids.size(); first += sequence)
    {
      const auto text = ids.subspan(first, needed), its_labels = labels.subspan(first, needed);
      const std::size_t read = tokens_up_to_label(its_labels);
      for (std::size_t i = 0; i < needed; ++i)
        ids_.push_back(i < read || is_token(text[i]) ? text[i] : 0);
      labels_.insert(labels_.end(), its_labels.begin(), its_labels.end());
    }
    return {ids_, labels_, needed};
  }

 private:
  std::vector<int> ids_, labels_;
};

}  // namespace cubist::CUBIST_ABI::detail
