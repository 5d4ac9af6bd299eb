// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Describes how attention on one rank cuts its scores into blocks, and which weights its dropout
// sets to 0. A unit is one key-value head of one sequence. Each of the query heads that share it
// has a matrix of scores, (queries, keys). The sizes are those of engine/attention.hpp.

#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/philox.hpp"
#include "cubist/engine/attention.hpp"

namespace cubist::CUBIST_ABI
{

/// Which elements of softmax(Q K^T) are dropped. Each is drawn by its global index
/// ((b H + h) S + query) S + key, for sequence b and head h of H.
struct AttentionDropout
{
  Philox random{0, 0};             ///< the source of random numbers
  double probability = 0;          ///< the probability of setting a weight to 0
  std::size_t first_sequence = 0;  // the first sequence of this rank
  std::size_t first_head = 0;      ///< the global index of this rank's first head
  std::size_t heads = 0;           // the number of heads of all ranks
};

/// Where the queries and the keys of a call are in their sequences. They may be from two chunks of
/// tokens, or, by default, from whole sequences.
struct AttentionRun
{
  std::size_t first_query = 0;  ///< the position of a sequence's first query
  std::size_t first_key = 0;    ///< the position of its first key
  std::size_t length = 0;       ///< the number of tokens of the whole sequence
};

/// The largest size of a block of scores.
struct AttentionBlocks
{
  std::size_t queries = 64;  ///< the maximum number of queries in a block
  std::size_t keys = 512;    ///< the maximum number of keys in a block
};

namespace detail
{

/// Tells which query each row of a block of scores belongs to. A block contains `rows` queries of
/// each of several consecutive units, for one query head of each unit.
struct BlockRows
{
  std::size_t rows;
  std::size_t first_unit;  // sequence * key-value heads + key-value head
  std::size_t kv_heads;
  std::size_t group;
  std::size_t member;  // which query head of its group
  std::size_t first_query;

  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t query(std::size_t i) const
  {
    return first_query + i % rows;
  }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t sequence(std::size_t i) const
  {
    return (first_unit + i / rows) / kv_heads;
  }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t kv_head(std::size_t i) const
  {
    return (first_unit + i / rows) % kv_heads;
  }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t head(std::size_t i) const
  {
    return kv_head(i) * group + member;
  }
};

/// A block of queries, and the keys that they read.
struct QueryBlock
{
  BlockRows at;
  std::size_t units;
  std::size_t first_row;  // the number of rows in the blocks before it
  std::size_t keys;
  std::size_t offset;  // the position of query 0 minus the position of key 0
  bool is_first;       // whether it is the first block of its units
  const AttentionDropout* drop;

  /// The number of rows of scores in the block.
  [[nodiscard]] std::size_t size() const { return units * at.rows; }

  /// Returns a function of u that returns the rows of unit u in Q or O.
  template <class V>
  [[nodiscard]] auto queries(const AttentionShape& s, const HeadColumns& columns,
                             MatrixView<V> m) const
  {
    return [this, &s, &columns, m](std::size_t u) {
      const std::size_t i = u * at.rows;
      return m.block(at.sequence(i) * s.query_stride() + at.first_query,
                     columns(at.head(i), s.head_size), {at.rows, s.head_size});
    };
  }
  /// Returns a function of u that returns n rows of unit u in K or V, starting at row `key`.
  template <class V>
  [[nodiscard]] auto keys_of(const AttentionShape& s, const HeadColumns& columns, MatrixView<V> m,
                             std::size_t key, std::size_t n) const
  {
    return [this, &s, &columns, m, key, n](std::size_t u) {
      const std::size_t i = u * at.rows;
      return m.block(at.sequence(i) * s.key_rows + key, columns(at.kv_head(i), s.head_size),
                     {n, s.head_size});
    };
  }
  /// Returns a function of u that returns the rows of unit u in a matrix of the block's scores.
  template <class V>
  [[nodiscard]] auto scores(MatrixView<V> m) const
  {
    return [this, m](std::size_t u) { return m.block(u * at.rows, 0, {at.rows, m.cols()}); };
  }
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
