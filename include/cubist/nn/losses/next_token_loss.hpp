// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loss of a model that predicts the next token: the mean cross-entropy of the logits of token
// (b, s) with the label of token (b, s + 1). The vocabulary is not gathered.
//
//   logits, their gradient (B S, V): any layout    ids, labels: B S numbers, the same on every rank
//
// The labels are the ids or, as for Hugging Face's models, separate numbers, one for each id. A
// label of -100 marks a token that the loss ignores because it is padding or was given. The mean is
// over the tokens that are left. The last token of each sequence predicts nothing, and the label of
// the first is not used, so it may be any number. Attention is causal, so tokens after the last
// label of a sequence change nothing.
//
// If ranks share sequences, the rows of the logits are in the order of a SequenceCut
// (matrix/sequence_cut.hpp), and rows of padding have no label. The value is the same, except that
// its terms are summed in a different order.
//
// Elements that one rank sends: what softmax_cross_entropy (nn/losses/loss.hpp) sends.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/sequence_cut.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Returns the label of the next token for each token, and `ignored_label` for the last token of a
/// sequence. The next call on the same rank overwrites the result.
[[nodiscard]] inline std::span<const int> next_labels(std::span<const int> labels,
                                                      std::size_t sequence)
{
  static thread_local std::vector<int> next;
  next.resize(labels.size());
  for (std::size_t i = 0; i < labels.size(); ++i)
    next[i] = i % sequence == sequence - 1 ? ignored_label : labels[i + 1];
  return next;
}

/// The number of tokens of a sequence up to its last label; 0 if no label is used.
[[nodiscard]] inline std::size_t tokens_up_to_label(std::span<const int> labels)
{
  std::size_t n = labels.size();
  while (n > 1 && labels[n - 1] == ignored_label) --n;
  return n > 1 ? n : 0;
}

/// The number of tokens of each sequence up to the last label of any sequence; at least two.
[[nodiscard]] inline std::size_t tokens_up_to_labels(std::span<const int> labels,
                                                     std::size_t sequence)
{
  std::size_t needed = std::min<std::size_t>(2, sequence);
  for (std::size_t first = 0; first < labels.size(); first += sequence)
    needed = std::max(needed, tokens_up_to_label(labels.subspan(first, sequence)));
  return needed;
}

/// Returns the numbers that must be the same on every rank: the length of sequences, the labels,
/// and the ids, because these change the logits. The next call on the same rank overwrites the
/// result.
[[nodiscard]] inline std::span<const int>
ids_labels_and_length(std::span<const int> ids, std::span<const int> labels, std::size_t sequence)
{
  static thread_local std::vector<int> all;
  all.assign(ids.begin(), ids.end());
  all.insert(all.end(), labels.begin(), labels.end());
  all.push_back(static_cast<int>(sequence));
  return all;
}

/// Checks the labels, and returns what next_labels() returns.
/// @param logits the shape of the logits of all tokens
/// @throws what next_token_loss() throws
[[nodiscard]] inline std::span<const int> checked_next_labels(std::span<const int> ids,
                                                              std::span<const int> labels,
                                                              std::size_t sequence, Shape logits)
{
  require<ShapeError>(
      sequence > 1 && ids.size() % sequence == 0, "got ", ids.size(), " tokens in sequences of ",
      sequence,
      ", so a sequence is incomplete, or has no next token; give whole sequences of at least two "
      "tokens");
  require<ShapeError>(labels.size() == ids.size(), "got ", labels.size(), " labels for ",
                      ids.size(),
                      " tokens, so they do not correspond; give one label for each token, and ",
                      ignored_label, " for a token that the loss ignores");
  check_label_count(labels, logits);
  for (std::size_t i = 0; i < labels.size(); ++i)
    if (i % sequence != 0) check_label(labels[i], i, logits);
  return next_labels(labels, sequence);
}

/// Returns the labels of all tokens in the order of the rows, with `ignored_label` for padding. The
/// next call on the same rank overwrites the result.
[[nodiscard]] inline std::span<const int> labels_of_rows(std::span<const int> labels,
                                                         const SequenceCut& cut)
{
  static thread_local std::vector<int> by_row;
  cut.arrange(labels, by_row, [](std::size_t) { return ignored_label; });
  return by_row;
}

/// Computes the loss of logits in the order of the cut or, without a cut, in the order of the
/// tokens.
template <RealScalar T, class L, class M>
LossValue cut_next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                              std::span<const int> labels, std::size_t sequence,
                              const SequenceCut& cut, DistMatrix<T, L, M>* gradient)
{
  require_not_partial<L>();
  const bool is_cut = cut.is_cut();
  const Shape tokens{is_cut ? ids.size() : logits.rows(), logits.cols()};
  const std::span<const int> next = checked_next_labels(ids, labels, sequence, tokens);
  return cross_entropy(logits, is_cut ? labels_of_rows(next, cut) : next, count_labels(next),
                       ids_labels_and_length(ids, next, sequence), gradient);
}

}  // namespace detail

/// The number of tokens that count in next_token_loss(), because the token after them has a label.
/// Give it the labels of whole sequences. For the mean over the tokens of several batches, weight
/// the loss of each batch by this number.
[[nodiscard]] inline std::size_t count_predicted(std::span<const int> labels, std::size_t sequence)
{
  return detail::count_labels(detail::next_labels(labels, sequence));
}

/// Returns the mean loss over the B (S - 1) tokens that have a next one, the same on every rank.
/// Writes its gradient to `gradient`, which may be `logits`. Every rank of the mesh calls this.
/// @throws ShapeError unless there is one id per row, in whole sequences of at least two tokens,
/// ArgumentError for an id without a column, and on every rank for ids that differ between ranks
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::size_t sequence, DistMatrix<T, L, M>& gradient)
{
  return next_token_loss(logits, ids, ids, sequence, gradient);
}
/// Computes the loss without its gradient.
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::size_t sequence)
{
  return next_token_loss(logits, ids, ids, sequence);
}

/// Returns the mean loss over the tokens whose next one has a label other than -100, the same on
/// every rank. Writes its gradient to `gradient`, which may be `logits`. If no token is left, the
/// mean is a NaN, as in PyTorch, and the gradient is 0. Every rank of the mesh calls this.
/// @param ids the tokens that the logits were computed from
/// @param labels one for each id, not shifted: usually the id or -100; the first of each sequence
/// is not used
/// @throws ShapeError unless there are one id and one label per row, in whole sequences of at least
/// two tokens. ArgumentError for a used label without a column, and on every rank for ids, or used
/// labels, that differ between ranks
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::span<const int> labels, std::size_t sequence,
                          DistMatrix<T, L, M>& gradient)
{
  detail::check_target(logits, gradient, "gradient");
  return detail::cut_next_token_loss(logits, ids, labels, sequence, {}, &gradient);
}
/// Computes the loss for these labels without its gradient.
template <RealScalar T, class L, class M>
LossValue next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                          std::span<const int> labels, std::size_t sequence)
{
  return detail::cut_next_token_loss<T, L, M>(logits, ids, labels, sequence, {}, nullptr);
}

}  // namespace cubist::CUBIST_ABI
