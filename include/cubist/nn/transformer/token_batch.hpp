// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Sequences of tokens with labels, and how they are computed without their padding.
//
// Attention is causal, so tokens after the last label of a text change no loss. Positions that are
// padding in all texts are left out. Elsewhere padding is replaced by a token of the text, so its
// ids may be any numbers.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cubist/comm/reduction.hpp"
#include "cubist/core/error.hpp"
#include "cubist/dist/staging.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Sequences, one after the other, and their labels.
struct TokenBatch
{
  std::span<const int> ids, labels;
  std::size_t sequence;

  /// @throws ShapeError unless the ids are whole sequences
  [[nodiscard]] std::size_t sequences() const
  {
    require<ShapeError>(sequence > 0 && !ids.empty() && ids.size() % sequence == 0, "got ",
                        ids.size(), " tokens in sequences of ", sequence,
                        ", so the last one is incomplete; give whole sequences");
    return ids.size() / sequence;
  }
};

/// Removes padding, in memory that is used again.
class PaddingRemover
{
 public:
  /// The batch up to the last label of all texts, on which the ranks of the mesh agree, so that
  /// labels which differ between ranks are an error of the loss. A batch that the loss refuses
  /// stays as it is.
  template <class M>
  [[nodiscard]] TokenBatch without_padding(const M& mesh, const TokenBatch& batch)
  {
    const auto& [ids, labels, sequence] = batch;
    const bool fits = sequence > 0 && ids.size() % sequence == 0 && labels.size() == ids.size();
    if (!fits || !mesh.active()) return batch;
    std::array<std::uint64_t, 1> most{tokens_up_to_labels(labels, sequence)};
    with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{most},
                        [&](auto one) { mesh.world().all_reduce(one, ReduceOp::max); });
    const std::size_t needed = std::min<std::size_t>(most[0], sequence);
    ids_.clear(), labels_.clear();
    for (std::size_t first = 0; first < ids.size(); first += sequence)
    {
      const auto text = ids.subspan(first, needed), its_labels = labels.subspan(first, needed);
      const auto read = text.first(tokens_up_to_label(its_labels));
      ids_.insert(ids_.end(), read.begin(), read.end());
      ids_.insert(ids_.end(), needed - read.size(), read.empty() ? 0 : read.back());
      labels_.insert(labels_.end(), its_labels.begin(), its_labels.end());
    }
    return {ids_, labels_, needed};
  }

 private:
  std::vector<int> ids_, labels_;
};

}  // namespace cubist::CUBIST_ABI::detail
