// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Determines which samples (rows or windows) make up which batch. It takes the samples of epoch 0
// in the order of that epoch's Shuffle, then those of epoch 1, and so on, and cuts them into
// batches of equal size, so a batch may have samples of two epochs. The order depends only on the
// seed and the number of the batch. So a resumed run gets the batches that it would have had, on
// every rank of every mesh.

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/dataset/shuffle.hpp"

namespace cubist::CUBIST_ABI
{

class BatchOrder
{
 public:
  /// @param samples the name of the samples, for messages: "windows of train.bin"
  /// @throws ArgumentError unless 0 < batch <= count
  BatchOrder(std::uint64_t count, std::size_t batch, std::uint64_t seed, const std::string& samples)
      : count_{count},
        batch_{batch},
        seed_{seed}
  {
    require<ArgumentError>(
        batch > 0 && batch <= count, "got batches of ", batch, " of the ", count, " ", samples,
        ", so a batch would be empty or have some of them twice; use batches of 1 to ", count,
        ", or more data");
  }

  /// The number of samples in an epoch.
  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The number of samples in a batch.
  [[nodiscard]] std::size_t batch_size() const { return batch_; }
  /// The number of batches after which every sample was visited.
  [[nodiscard]] std::uint64_t batches_per_epoch() const { return ceil_div(count_, batch_); }
  /// The epoch, from 0, of the first sample of batch `b`.
  [[nodiscard]] std::uint64_t epoch_of(std::uint64_t b) const { return first(b) / count_; }

  /// Returns the samples of batch `b`. Batches are counted from 0 over the whole run.
  /// @throws ArgumentError for a batch beyond 2^40 epochs
  [[nodiscard]] std::vector<std::uint64_t> operator()(std::uint64_t b) const
  {
    const std::uint64_t begin = first(b);
    Shuffle order{count_, seed_, begin / count_};
    std::vector<std::uint64_t> samples;
    samples.reserve(batch_);
    for (std::uint64_t i = begin; i < begin + batch_; ++i)
    {
      if (i % count_ == 0 && i > begin) order = Shuffle{count_, seed_, i / count_};
      samples.push_back(order(i % count_));
    }
    return samples;
  }

 private:
  /// The number of samples before batch `b`.
  [[nodiscard]] std::uint64_t first(std::uint64_t b) const
  {
    require<ArgumentError>(
        b < std::numeric_limits<std::uint64_t>::max() / batch_, "got batch ", b, " of ", batch_,
        " samples, which is beyond the last batch that has a number; count batches from 0");
    return b * batch_;
  }

  std::uint64_t count_;
  std::size_t batch_;
  std::uint64_t seed_;
};

}  // namespace cubist::CUBIST_ABI
