// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Makes batches of sequences from a token file, for Transformer::compute_gradients. A batch is a
// function of its number and the seed, so it is the same on every rank of every mesh and in a
// resumed run.
//
// Window w of the file is the tokens [w (S - 1), w (S - 1) + S). Windows overlap by one token,
// because the last token of a sequence predicts nothing. So each token but the first is predicted
// once per epoch. Fewer than S - 1 tokens at the end of the file are left out. Each epoch visits
// every window once, in its own order (dataset/batch_order.hpp).
//
//   TokenBatches data{TokenFile{"train.bin"}, {.sequences = 16, .length = 128}};
//   model.compute_gradients(data.batch(step), data.length());
//
// A model takes the tokens of all sequences on every rank, 4 bytes each, so a rank reads all of
// them. Nothing is sent.

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/dataset/batch_order.hpp"
#include "cubist/dataset/token_file.hpp"

namespace cubist::CUBIST_ABI
{

/// How a file is divided into sequences and batches, and in which order.
struct TokenBatchOptions
{
  std::size_t sequences = 8;  ///< the number of sequences in a batch
  std::size_t length = 128;   ///< the number of tokens in a sequence
  std::uint64_t seed = 0;     ///< the seed of the order
};

/// The batches of a token file. Reading is const, so threads may share an object.
class TokenBatches
{
 public:
  /// @throws ArgumentError for sequences of fewer than two tokens, and for more sequences in a
  /// batch than the file has windows; DataError for a file shorter than a window
  TokenBatches(TokenFile file, const TokenBatchOptions& options)
      : file_{std::move(file)},
        length_{options.length},
        order_{count_windows(file_, options.length), options.sequences, options.seed,
               "windows of " + file_.path()}
  {
  }

  /// The number of sequences in a batch.
  [[nodiscard]] std::size_t sequences() const { return order_.batch_size(); }
  /// The number of tokens in a sequence.
  [[nodiscard]] std::size_t length() const { return length_; }
  /// The number of windows of the file, which each epoch visits.
  [[nodiscard]] std::uint64_t windows() const { return order_.count(); }
  /// The number of batches after which every window was visited.
  [[nodiscard]] std::uint64_t batches_per_epoch() const { return order_.batches_per_epoch(); }
  /// The epoch, from 0, of the first sequence of batch `b`.
  [[nodiscard]] std::uint64_t epoch_of(std::uint64_t b) const { return order_.epoch_of(b); }

  /// Returns the tokens of batch `b`, one sequence after the other. Batches are counted from 0 over
  /// the whole run.
  /// @throws DataError for a token that the file's vocabulary does not have (TokenFileOptions), or
  /// that no int can represent
  [[nodiscard]] std::vector<int> batch(std::uint64_t b) const
  {
    std::vector<int> ids(sequences() * length_);
    std::span<int> rest{ids};
    for (const std::uint64_t w : order_(b))
    {
      file_.copy(w * (length_ - 1), rest.first(length_));
      rest = rest.subspan(length_);
    }
    return ids;
  }

 private:
  static std::uint64_t count_windows(const TokenFile& file, std::size_t length)
  {
    require<ArgumentError>(length > 1, "got sequences of ", length,
                           " tokens, in which no token has a next one to predict; use at least 2");
    require<DataError>(file.size() >= length, "got ", file.path(), ", whose ", file.size(),
                       " tokens do not fill a sequence of ", length,
                       ", so there is nothing to learn from; use shorter sequences, or a longer "
                       "text");
    return (file.size() - 1) / (length - 1);
  }

  TokenFile file_;
  std::size_t length_;
  BatchOrder order_;
};

}  // namespace cubist::CUBIST_ABI
