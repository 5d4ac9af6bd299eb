// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loss of a model that predicts the next token, without gathering the vocabulary: the mean
// cross-entropy of the logits of token (b, s) with token (b, s + 1).
//
//   logits, their gradient (B S, V): any layout    ids: B S numbers, the same on every rank
//
// The last token of each sequence predicts nothing.
//
// Words: those of softmax_cross_entropy (nn/losses/loss.hpp).

#include <cstddef>
#include <span>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/nn/losses/loss.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The label of each row, -1 for none. The memory of a rank is used again.
[[nodiscard]] inline std::span<const int> next_tokens(std::span<const int> ids,
                                                      std::size_t sequence)
{
  static thread_local std::vector<int> labels;
  labels.resize(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i)
    labels[i] = i % sequence == sequence - 1 ? -1 : ids[i + 1];
  return labels;
}

/// What must be the same on every rank. The first token of a sequence is no label, but changes the
/// logits. The memory of a rank is used again.
[[nodiscard]] inline std::span<const int> ids_and_length(std::span<const int> ids,
                                                         std::size_t sequence)
{
  static thread_local std::vector<int> all;
  all.assign(ids.begin(), ids.end());
  all.push_back(static_cast<int>(sequence));
  return all;
}

template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::size_t sequence, DistMatrix<T, L, M>* gradient)
{
  require_not_partial<L>();
  require<ShapeError>(sequence > 1 && ids.size() % sequence == 0, "got ", ids.size(),
                      " tokens in sequences of ", sequence,
                      ", of which none has a next one or one is not whole; give whole sequences of "
                      "at least two tokens");
  check_labels(ids, logits.shape());
  const std::size_t count = ids.size() / sequence * (sequence - 1);
  return cross_entropy(logits, next_tokens(ids, sequence), count, ids_and_length(ids, sequence),
                       gradient);
}

}  // namespace detail

/// The mean over the B (S - 1) tokens that have a next one, the same on every rank; `gradient`,
/// which may be `logits`, becomes its gradient. Every rank of the mesh calls this.
/// @throws ShapeError unless there is one id a row, in whole sequences of at least two,
/// ArgumentError for an id that is no column, and on every rank for ids that differ between ranks
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::size_t sequence, DistMatrix<T, L, M>& gradient)
{
  detail::check_target(logits, gradient, "gradient");
  return detail::next_token_loss(logits, ids, sequence, &gradient);
}
/// Computes the loss without its gradient.
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::size_t sequence)
{
  return detail::next_token_loss<T, L, M>(logits, ids, sequence, nullptr);
}

}  // namespace cubist::CUBIST_ABI
