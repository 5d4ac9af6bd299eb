// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Caches the keys and values of earlier tokens, for the sequences and heads of one rank: each is a
// matrix (B capacity, G dh), with `capacity` rows per sequence and its heads side by side.
//
// Source: Pope et al., "Efficiently Scaling Transformer Inference", arXiv 2211.05102, section 2.

#include <cstddef>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/nn/attention/attention_shape.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Keeps keys and values, with a row for each token and heads side by side.
template <RealScalar T, Engine E>
class KeyValueRows
{
 public:
  /// Makes room for `rows` rows of these heads. The contents stay if the size stays the same.
  void fit(std::size_t rows, const AttentionShape& s)
  {
    shape_ = {rows, s.heads / s.group * s.head_size};
    if (keys_.size() == shape_.size()) return;
    keys_ = Buffer(shape_.size());
    values_ = Buffer(shape_.size());
  }
  [[nodiscard]] MatrixView<const T> keys() const { return {keys_.data(), shape_}; }
  [[nodiscard]] MatrixView<const T> values() const { return {values_.data(), shape_}; }

  /// Copies n rows of qkv, starting at row `from`, to the rows that start at row `to`.
  /// @param s gives the columns of qkv
  void copy(const E& engine, const AttentionShape& s, std::size_t to, MatrixView<const T> qkv,
            std::size_t from, std::size_t n)
  {
    if (n == 0) return;
    const Shape head{n, s.head_size};
    const auto copy = [&](const HeadColumns& columns, Buffer& rows) {
      for (std::size_t h = 0; h < s.heads / s.group; ++h)
        engine.copy(qkv.block(from, columns(h, s.head_size), head),
                    MatrixView<T>{rows.data(), shape_}.block(to, h * s.head_size, head));
    };
    copy(s.k, keys_);
    copy(s.v, values_);
  }

 private:
  using Buffer = typename E::template Buffer<T>;

  Shape shape_;
  Buffer keys_ = Buffer(0);
  Buffer values_ = Buffer(0);
};

}  // namespace detail

template <RealScalar T, Engine E>
class KeyValueCache
{
 public:
  /// Makes a cache for up to `capacity` tokens of each sequence; 0 makes none.
  explicit KeyValueCache(std::size_t capacity = 0)
      : capacity_{capacity}
  {
  }

  /// How many tokens of a sequence fit.
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  /// The keys, with a row for each token.
  [[nodiscard]] MatrixView<const T> keys() const { return rows_.keys(); }
  /// The values, with a row for each token.
  [[nodiscard]] MatrixView<const T> values() const { return rows_.values(); }

  /// Copies the keys and values of new tokens, which begin at `position`, from `qkv`.
  /// @param sequences the number of sequences on all ranks
  /// @throws ArgumentError for more tokens than the capacity, and for a position before which
  /// tokens are missing
  void append(const E& engine, const AttentionShape& s, std::size_t position, std::size_t sequences,
              MatrixView<const T> qkv)
  {
    require<ArgumentError>(
        position + s.queries <= capacity_, "got tokens up to position ", position + s.queries,
        " for a cache of ", capacity_,
        " tokens, so earlier ones would be overwritten; make it larger with use_cache");
    if (position == 0) sequences_ = sequences;
    require<ArgumentError>(
        sequences == sequences_ && position <= length_, "got tokens at position ", position, " of ",
        sequences, " sequences, but the cache has ", length_, " tokens of ", sequences_,
        " sequences, so earlier ones are missing; give the tokens that follow, or all");
    length_ = position + s.queries;
    rows_.fit(s.sequences * capacity_, s);
    for (std::size_t b = 0; b < s.sequences; ++b)
      rows_.copy(engine, s, b * capacity_ + position, qkv, b * s.queries, s.queries);
  }

  /// Returns the sizes of attention to all tokens up to those that `append` got for `position`.
  [[nodiscard]] AttentionShape shape(AttentionShape s, std::size_t position) const
  {
    s.keys = position + s.queries;
    s.key_rows = capacity_;
    s.k = s.v = {};
    return s;
  }

 private:
  std::size_t capacity_;
  std::size_t sequences_ = 0;  // the number of sequences on all ranks
  std::size_t length_ = 0;     // how many tokens of a sequence the cache holds
  detail::KeyValueRows<T, E> rows_;
};

}  // namespace cubist::CUBIST_ABI
