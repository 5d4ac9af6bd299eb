// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The loss of the next token if ranks share sequences. The rows of the logits and their labels are
// in the order of a SequenceCut (dist/sequence_cut.hpp); rows of padding have no label. The value
// is that of next_token_loss, except for the order of its sums.
//
//   logits, their gradient (cut.rows(), V): any layout    ids, labels: B S numbers, the same on
//   every rank
//
// Words: those of softmax_cross_entropy (nn/losses/loss.hpp).

#include <cstddef>
#include <span>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/sequence_cut.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// `labels` of all tokens in the order of the rows, `ignored_label` for padding. The memory of a
/// rank is used again.
[[nodiscard]] inline std::span<const int> labels_of_rows(std::span<const int> labels,
                                                         const SequenceCut& cut)
{
  static thread_local std::vector<int> by_row;
  cut.arrange(labels, by_row, [](std::size_t) { return ignored_label; });
  return by_row;
}

/// next_token_loss of logits in the order of the cut or, without a cut, in the order of the tokens.
template <RealScalar T, class L, class M>
LossValue cut_next_token_loss(const DistMatrix<T, L, M>& logits, std::span<const int> ids,
                              std::span<const int> labels, std::size_t sequence,
                              const SequenceCut& cut, DistMatrix<T, L, M>* gradient)
{
  if (!cut.is_cut()) return next_token_loss<T, L, M>(logits, ids, labels, sequence, gradient);
  const std::span<const int> next =
      checked_next_labels(ids, labels, sequence, {ids.size(), logits.cols()});
  return cross_entropy(logits, labels_of_rows(next, cut), count_labels(next),
                       ids_labels_and_length(ids, next, sequence), gradient);
}

}  // namespace cubist::CUBIST_ABI::detail
