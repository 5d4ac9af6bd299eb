// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a rank multiplies for a part of C = A B, where it can read all pieces of A and B in place:
//
//   C(rows, cols) += A(rows, inner) B(inner, cols)
//
// for all pieces of A and of B that the part needs, panel by panel of the inner indices. Only valid
// elements are multiplied, each pair once. BLAS packs A for each piece of B's columns, and B for
// each piece of A's rows, so pieces that are too small for that are first assembled into one
// matrix: all rows, all columns, or a panel of several pieces of the inner indices.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "cubist/algorithm/direct/gemm_rates.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Where a piece of a matrix begins in the block of a rank.
struct Corner
{
  int rank = 0;
  std::size_t i = 0;
  std::size_t j = 0;
};

/// C += A B, each factor one piece or assembled from several.
struct BlockProduct
{
  struct Piece
  {
    Corner from;
    Rectangle to;  // in the factor
  };

  std::vector<Piece> a;
  std::vector<Piece> b;
  Corner c;
  ProductSize size;
  bool first = true;       // of those that write to this piece of C
  bool same_a = false;     // as in the product before
  bool same_b = false;     // as in the product before with the same slot
  std::size_t b_slot = 0;  // the workspace that an assembled B is in
};

/// With so many inner indices BLAS reaches its full speed.
inline constexpr std::size_t deep_panel = 1024;

/// Which of the replicas of a block a rank reads: its own, if it has one.
[[nodiscard]] inline int replica_for(int rank, const std::vector<int>& replicas)
{
  const bool own = std::find(replicas.begin(), replicas.end(), rank) != replicas.end();
  return own ? rank : replicas[static_cast<std::size_t>(rank) % replicas.size()];
}

/// The first block in the order of rows that may have elements of a row. Rows are cut alike in all
/// columns.
[[nodiscard]] inline ReplicaMap::const_iterator first_holder(const ReplicaMap& replica_map,
                                                             std::size_t row)
{
  const auto next = replica_map.lower_bound({row + 1, 0});
  return next == replica_map.begin() ? next
                                     : replica_map.lower_bound({std::prev(next)->first.first, 0});
}

/// The pieces of a part of A, as `rank` reads them.
[[nodiscard]] inline std::vector<BlockProduct::Piece> pieces_of(const Placement& a,
                                                                const Block& part, int rank)
{
  std::vector<BlockProduct::Piece> all;
  const auto end = a.replica_map().lower_bound({part.rows.offset + part.rows.valid, 0});
  for (auto holder = first_holder(a.replica_map(), part.rows.offset); holder != end; ++holder)
  {
    const auto& ranks = holder->second;
    const Block in_a = a[ranks.front()];
    const auto [i, j, shape] = intersection(in_a, part);
    if (shape.size() == 0) continue;
    all.push_back({{replica_for(rank, ranks), i - in_a.rows.offset, j - in_a.cols.offset},
                   {i - part.rows.offset, j - part.cols.offset, shape}});
  }
  return all;
}

/// A part of a dimension, cut where blocks of A begin.
[[nodiscard]] inline std::vector<Range> split_at_blocks(const Placement& a, Range Block::*dimension,
                                                        const Range& part)
{
  std::vector<std::size_t> begins{part.offset};
  for (const auto& [_, ranks] : a.replica_map())
  {
    const std::size_t begin = (a[ranks.front()].*dimension).offset;
    if (begin > part.offset && begin < part.offset + part.valid) begins.push_back(begin);
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  std::vector<Range> all;
  for (std::size_t i = 0; i < begins.size(); ++i)
  {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : part.offset + part.valid;
    all.push_back({begins[i], end - begins[i], end - begins[i]});
  }
  return all;
}

/// The rates of BLAS and memory for elements of one size, in the units of `GemmRates`.
struct GemmTimes
{
  double pack_a = 1;
  double pack_b = 1;
  double copy = 1;
  /// The longest panel that is assembled, so that caches still hold it when it is multiplied.
  std::size_t panel = deep_panel;
  /// Elements that fit a core's own cache.
  std::size_t cached = std::size_t{1} << 18;
  double products = GemmRates{}.products;
  double result = GemmRates{}.result;

  [[nodiscard]] static GemmTimes of(std::size_t scalar_bytes, const GemmRates& rates = {})
  {
    const bool wide = scalar_bytes > 4;
    return {wide ? rates.pack_a_double : rates.pack_a_float,
            wide ? rates.pack_b_double : rates.pack_b_float,
            static_cast<double>(scalar_bytes) * rates.copy,
            std::min<std::size_t>(deep_panel, rates.panel_bytes / scalar_bytes),
            rates.cache_bytes / scalar_bytes,
            rates.products,
            rates.result};
  }
  /// The time of a product on one core, in units of `GemmRates`.
  [[nodiscard]] double operator()(ProductSize s) const
  {
    const auto m = static_cast<double>(s.m);
    const auto n = static_cast<double>(s.n);
    const auto k = static_cast<double>(s.k);
    return m * n * k / products + (pack_a * m + pack_b * n) * k + m * n * result;
  }
};

/// The rows of A, (m, k), that are multiplied at a time with B, (k, n): the pieces, or all of them
/// assembled where that takes less time than packing B once for each piece. Columns of B alike.
[[nodiscard]] inline std::vector<Range> group_pieces(const std::vector<Range>& pieces,
                                                     const Range& m, const Range& n, double pack_b,
                                                     double copy)
{
  const auto packed = static_cast<double>((pieces.size() - 1) * n.valid);
  const bool pays = pack_b * packed > copy * static_cast<double>(m.valid);
  return pays ? std::vector{m} : pieces;
}

/// Whether a panel and the next one are better multiplied as one: the time of a thin panel is that
/// of reading and writing C, (m, n), but pieces of A or B in different blocks must be copied first
/// (docs/decisions/0016-panel-depth.md).
[[nodiscard]] inline bool is_worth_merging(std::size_t depth, std::size_t next, Shape c,
                                           bool copies_a, bool copies_b)
{
  const std::size_t both = depth + next;
  if (!copies_a && !copies_b) return both <= deep_panel;
  if (copies_a && copies_b) return next < 32 && both <= 128;
  const std::size_t others = copies_b ? c.rows : c.cols;
  return others >= 256 && ((next < 128 && both <= 512) || 4 * both <= others);
}

/// The panels of the inner indices.
/// @param copied_a, copied_b whether a panel of A or B is assembled from rows or columns anyway
/// @param most inner indices of such a panel
[[nodiscard]] inline std::vector<Range> panels(const Placement& a, const Placement& b,
                                               const Block& part, const Range& inner, bool copied_a,
                                               bool copied_b, std::size_t most)
{
  const auto blocks_a = split_at_blocks(a, &Block::cols, inner);
  const auto blocks_b = split_at_blocks(b, &Block::rows, inner);
  const auto same = [](const std::vector<Range>& blocks, std::size_t i, std::size_t j) {
    return std::none_of(blocks.begin(), blocks.end(),
                        [&](const Range& r) { return i < r.offset && r.offset <= j; });
  };
  const std::size_t longest = copied_a || copied_b ? most : inner.valid;
  std::vector<Range> all;
  for (const Range& in_a : blocks_a)
    for (const Range& piece : split_at_blocks(b, &Block::rows, in_a))
      for (std::size_t i = 0; i < piece.valid; i += longest)
      {
        const std::size_t depth = std::min(longest, piece.valid - i);
        const Range next{piece.offset + i, depth, depth};
        if (!all.empty() && all.back().valid + depth <= longest &&
            is_worth_merging(all.back().valid, depth, part.valid(),
                             !copied_a && !same(blocks_a, all.back().offset, next.offset),
                             !copied_b && !same(blocks_b, all.back().offset, next.offset)))
          all.back().size = all.back().valid += depth;
        else
          all.push_back(next);
      }
  return all;
}

/// The products for `part`, a block of C, over these inner indices; C is written from `origin` on.
[[nodiscard]] inline std::vector<BlockProduct>
block_products(const Placement& a, const Placement& b, const Block& part, const Range& inner,
               const Corner& origin, int rank, const GemmTimes& times)
{
  if (part.valid().size() == 0 || inner.valid == 0) return {};
  const auto row_pieces = split_at_blocks(a, &Block::rows, part.rows);
  const auto col_pieces = split_at_blocks(b, &Block::cols, part.cols);
  const auto rows = group_pieces(row_pieces, part.rows, part.cols, times.pack_b, times.copy);
  const auto cols = group_pieces(col_pieces, part.cols, part.rows, times.pack_a, times.copy);
  std::vector<BlockProduct> products;
  for (const Range& depth : panels(a, b, part, inner, rows.size() < row_pieces.size(),
                                   cols.size() < col_pieces.size(), times.panel))
    for (const Range& row : rows)
      for (const Range& col : cols)
        products.push_back({.a = pieces_of(a, {row, depth}, rank),
                            .b = pieces_of(b, {depth, col}, rank),
                            .c = {origin.rank, origin.i + row.offset - part.rows.offset,
                                  origin.j + col.offset - part.cols.offset},
                            .size = {row.valid, col.valid, depth.valid},
                            .first = depth.offset == inner.offset,
                            .same_a = col.offset != part.cols.offset,
                            .same_b = cols.size() == 1 && row.offset != part.rows.offset});
  return products;
}

/// The time of a product on one core.
[[nodiscard]] inline double time_of(const BlockProduct& p, const GemmTimes& times)
{
  const bool copies_a = p.a.size() > 1 && !p.same_a;
  const bool copies_b = p.b.size() > 1 && !p.same_b;
  const std::size_t copied =
      (copies_a ? p.size.m * p.size.k : 0) + (copies_b ? p.size.k * p.size.n : 0);
  return times(p.size) + times.copy * static_cast<double>(copied);
}

}  // namespace cubist::CUBIST_ABI::detail
