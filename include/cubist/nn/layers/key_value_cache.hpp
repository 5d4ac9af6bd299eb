// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The keys and values of earlier tokens, for the sequences and heads of one rank: (B capacity, G
// dh), `capacity` rows a sequence, head by head.
//
// Source: Pope et al., "Efficiently Scaling Transformer Inference", arXiv 2211.05102, section 2.

#include <cstddef>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/nn/functions/attention_shape.hpp"

namespace cubist::CUBIST_ABI
{

template <RealScalar T, Engine E>
class KeyValueCache
{
 public:
  /// A cache for up to `capacity` tokens of each sequence; 0 makes none.
  explicit KeyValueCache(std::size_t capacity = 0) : capacity_{capacity} {}

  /// Tokens of a sequence that fit.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// The keys, in rows of tokens.
  [[nodiscard]] MatrixView<const T> keys() const { return {keys_.data(), all_}; }
  /// The values, in rows of tokens.
  [[nodiscard]] MatrixView<const T> values() const { return {values_.data(), all_}; }

  /// Copies the keys and values of new tokens, which begin at `position`, from `qkv`.
  /// @param sequences the sequences of all ranks
  /// @throws ArgumentError for more tokens than the capacity, and for a position after which tokens
  /// would be missing
  void append(const E& engine, const AttentionShape& s, std::size_t position, std::size_t sequences,
              MatrixView<const T> qkv)
  {
    require<ArgumentError>(
        position + s.queries <= capacity_, "got tokens up to position ", position + s.queries,
        " for a cache of ", capacity_,
        " tokens, so earlier ones would be overwritten; make it larger with use_cache");
    if (position == 0) sequences_ = sequences;
    require<ArgumentError>(sequences == sequences_ && position <= length_,
                           "got tokens at position ", position, " of ", sequences,
                           " sequences for a cache that has ", length_, " tokens of ", sequences_,
                           ", so earlier ones are missing; give the tokens that follow, or all");
    length_ = position + s.queries;
    const std::size_t heads = s.heads / s.group;
    all_ = {s.sequences * capacity_, heads * s.head_size};
    if (keys_.size() != all_.size())
    {
      keys_ = Buffer(all_.size());
      values_ = Buffer(all_.size());
    }
    const Shape head{s.queries, s.head_size};
    const auto copy = [&](const HeadColumns& columns, Buffer& cached) {
      const MatrixView<T> to{cached.data(), all_};
      for (std::size_t b = 0; b < s.sequences; ++b)
        for (std::size_t h = 0; h < heads; ++h)
          engine.copy(qkv.block(b * s.queries, columns(h, s.head_size), head),
                      to.block(b * capacity_ + position, h * s.head_size, head));
    };
    copy(s.k, keys_);
    copy(s.v, values_);
  }

  /// The sizes of attention to all tokens, including those that `append` got for `position`.
  [[nodiscard]] AttentionShape shape(AttentionShape s, std::size_t position) const
  {
    s.keys = position + s.queries;
    s.key_rows = capacity_;
    s.k = s.v = {};
    return s;
  }

 private:
  using Buffer = typename E::template Buffer<T>;

  std::size_t capacity_;
  std::size_t sequences_ = 0;  // of all ranks
  std::size_t length_ = 0;     // tokens of a sequence that the cache has
  Shape all_;
  Buffer keys_ = Buffer(0);
  Buffer values_ = Buffer(0);
};

}  // namespace cubist::CUBIST_ABI
