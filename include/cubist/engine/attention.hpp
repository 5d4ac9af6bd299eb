// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sizes of attention on one rank, and where its heads lie in memory. Engines that compute
// attention in one pass take them as an argument (FusesAttention in engine/engine.hpp).

#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

/// Where the heads of a matrix lie among its columns: in pieces, each of which holds whole heads.
struct HeadColumns
{
  std::size_t first = 0;   // column of the first head
  std::size_t width = 0;   // columns of a piece
  std::size_t stride = 0;  // the distance between two pieces, in columns

  /// The first column of a head.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t operator()(std::size_t head,
                                                          std::size_t head_size) const
  {
    const std::size_t column = head * head_size;
    return width == 0 ? first + column : first + column / width * stride + column % width;
  }
  /// The head that a column belongs to, or a large number if it belongs to none.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t head_of(std::size_t column,
                                                       std::size_t head_size) const
  {
    const std::size_t none = ~std::size_t{0};
    if (column < first) return none;
    column -= first;
    if (width == 0) return column / head_size;
    return column % stride < width ? (column / stride * width + column % stride) / head_size : none;
  }
};

/// The sizes of attention on one rank, which holds whole sequences and whole groups of heads.
struct AttentionShape
{
  std::size_t sequences = 0;  ///< sequences in this rank's rows
  std::size_t queries = 0;    // queries of a sequence: its rows of Q and O
  std::size_t keys = 0;       // keys of a sequence; query s is at position s + keys - queries
  std::size_t key_rows = 0;   // the distance between two sequences in K and V, in rows
  std::size_t heads = 0;      // heads of queries
  std::size_t group = 1;      // query heads that share a key-value head
  std::size_t head_size = 0;  ///< features of a head
  bool causal = true;         // a query reads keys up to its own position
  double scale = 1;           // factor of the scores
  HeadColumns q = {};         ///< the columns of Q
  HeadColumns k = {};         ///< the columns of K
  HeadColumns v = {};         ///< the columns of V
  HeadColumns o = {};         ///< the columns of the output
  /// The distance between two sequences in Q and O, in rows; 0 stands for `queries`.
  std::size_t query_rows = 0;

  /// The distance between two sequences in Q and O, in rows.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t query_stride() const
  {
    return query_rows == 0 ? queries : query_rows;
  }
};

}  // namespace cubist::CUBIST_ABI
