// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Defines the functions of block_products.hpp that the compiled library contains.

#include <algorithm>
#include <iterator>
#include <utility>

#include "cubist/algorithm/direct/block_products.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Consecutive ranges of equal length; `first` is the first of them.
struct Slices
{
  Range first;
  std::size_t count = 1;
};

/// Cuts a range into consecutive ranges of at most `most` indices. A list that only predicts a time
/// has one entry for all ranges after the first that lie between the same two `cuts`, which ascend.
[[nodiscard]] inline std::vector<Slices> slices(const Range& all, std::size_t most,
                                                ProductList list,
                                                const std::vector<std::size_t>& cuts = {})
{
  std::vector<Slices> found;
  for (std::size_t i = 0; i < all.valid; i += found.back().count * most)
  {
    const auto cut = std::upper_bound(cuts.begin(), cuts.end(), all.offset + i);
    const std::size_t end = cut == cuts.end() ? all.valid : *cut - all.offset;
    const std::size_t size = std::min(most, all.valid - i);
    const bool is_one = list == ProductList::to_compute || i == 0;
    found.push_back(
        {{all.offset + i, size, size}, is_one ? 1 : std::max<std::size_t>(1, (end - i) / most)});
  }
  return found;
}

/// Returns where blocks of A begin inside a range of one of its dimensions.
[[nodiscard]] inline std::vector<std::size_t>
block_begins(const Placement& a, Range Block::*dimension, const Range& inside)
{
  std::vector<std::size_t> found;
  for (const auto& [_, ranks] : a.replica_map())
  {
    const std::size_t begin = (a[ranks.front()].*dimension).offset;
    if (begin > inside.offset && begin < inside.offset + inside.valid) found.push_back(begin);
  }
  return found;
}

/// Cuts a range at indices inside it.
[[nodiscard]] inline std::vector<Range> split(const Range& whole, std::vector<std::size_t> cuts)
{
  cuts.push_back(whole.offset);
  std::sort(cuts.begin(), cuts.end());
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  cuts.push_back(whole.offset + whole.valid);
  std::vector<Range> all;
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i)
    all.push_back({cuts[i], cuts[i + 1] - cuts[i], cuts[i + 1] - cuts[i]});
  return all;
}

/// Returns the replica of a block that a rank reads: its own, if it has one.
[[nodiscard]] inline int replica_for(int rank, const std::vector<int>& replicas)
{
  const bool own = std::find(replicas.begin(), replicas.end(), rank) != replicas.end();
  return own ? rank : replicas[static_cast<std::size_t>(rank) % replicas.size()];
}

/// Returns the first block, in the order of rows, that may hold elements of `row`. Rows are cut in
/// the same way in all columns.
[[nodiscard]] inline ReplicaMap::const_iterator first_holder(const ReplicaMap& replica_map,
                                                             std::size_t row)
{
  const auto next = replica_map.lower_bound({row + 1, 0});
  return next == replica_map.begin() ? next
                                     : replica_map.lower_bound({std::prev(next)->first.first, 0});
}

/// Returns the pieces from which `rank` reads a part of A.
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

/// Returns the ranges of rows of A (m, k), each of which is multiplied by B (k, n) in one call:
/// each piece alone, or all pieces assembled if that is faster than packing B once for each piece.
/// Columns of B are grouped in the same way.
[[nodiscard]] inline std::vector<Range> group_pieces(const std::vector<Range>& pieces,
                                                     const Range& m, const Range& n, double pack_b,
                                                     double copy)
{
  const auto packed = static_cast<double>((pieces.size() - 1) * n.valid);
  const bool pays = pack_b * packed > copy * static_cast<double>(m.valid);
  return pays ? std::vector{m} : pieces;
}

/// The properties of a factor on which the panels of the inner indices depend.
struct PanelFactor
{
  std::vector<std::size_t> begins;  // where its blocks begin, inside the inner indices
  bool assembled;                   // whether its rows or columns are assembled in every panel

  /// Whether the factor must be copied before two consecutive panels can be multiplied as one.
  [[nodiscard]] bool copies(const Range& panel, const Range& next) const
  {
    const auto is_between = [&](std::size_t begin) {
      return panel.offset < begin && begin <= next.offset;
    };
    return !assembled && std::any_of(begins.begin(), begins.end(), is_between);
  }
};

/// Whether multiplying two panels as one is faster. A thin panel takes as long as reading and
/// writing C (m, n), but pieces of A or B in different blocks must be copied before they can be
/// multiplied together (docs/decisions/0016-panel-depth.md).
[[nodiscard]] inline bool is_worth_merging(std::size_t depth, std::size_t next, Shape c,
                                           bool copies_a, bool copies_b)
{
  const std::size_t both = depth + next;
  if (!copies_a && !copies_b) return both <= deep_panel;
  if (copies_a && copies_b)
  {
    constexpr std::size_t thin = 32;     // at this depth or more, two copies cost what they gain
    constexpr std::size_t enough = 128;  // a deeper panel is hardly faster
    return next < thin && both <= enough;
  }
  // One copy saves a pass over C, which has `others` times as many elements for each one copied.
  constexpr std::size_t least = 256;   // with fewer, the copy costs what it gains
  constexpr std::size_t thin = 128;    // at this depth or more, one copy costs what it gains
  constexpr std::size_t enough = 512;  // a deeper panel is hardly faster
  constexpr std::size_t ratio = 4;     // a panel this much thinner than C always pays
  const std::size_t others = copies_b ? c.rows : c.cols;
  return others >= least && ((next < thin && both <= enough) || ratio * both <= others);
}

/// Cuts the inner indices into panels for a part of C of shape `c`. A panel is one or more pieces,
/// each inside one block of A and one block of B.
[[nodiscard]] inline std::vector<Slices> panels(const Range& inner, const PanelFactor& a,
                                                const PanelFactor& b, Shape c, std::size_t longest,
                                                ProductList list)
{
  auto begins = a.begins;
  begins.insert(begins.end(), b.begins.begin(), b.begins.end());
  std::vector<Slices> all;
  for (const Range& piece : split(inner, begins))
    for (const Slices& slice : slices(piece, longest, list))
    {
      const Range& next = slice.first;
      Range* const last = all.empty() ? nullptr : &all.back().first;
      // An entry for several slices has the greatest length, so nothing extends it.
      const bool extends_last = last && last->valid + next.valid <= longest &&
                                is_worth_merging(last->valid, next.valid, c, a.copies(*last, next),
                                                 b.copies(*last, next));
      if (extends_last)
        last->size = last->valid += next.valid;
      else
        all.push_back(slice);
    }
  return all;
}

/// Returns the block products that compute one part of C, panel by panel along K.
[[nodiscard]] inline std::vector<BlockProduct>
products_by_panels(const Placement& a, const Placement& b, const TargetPart& target,
                   const Range& inner, int rank, const GemmTimes& times,
                   ProductList list = ProductList::to_compute)
{
  const auto& [part, origin] = target;
  if (part.valid().size() == 0 || inner.valid == 0) return {};
  const auto m_pieces = split(part.rows, block_begins(a, &Block::rows, part.rows));
  const auto n_pieces = split(part.cols, block_begins(b, &Block::cols, part.cols));
  const auto m_ranges = group_pieces(m_pieces, part.rows, part.cols, times.pack_b, times.copy);
  const auto n_ranges = group_pieces(n_pieces, part.cols, part.rows, times.pack_a, times.copy);
  const PanelFactor k_of_a{block_begins(a, &Block::cols, inner), m_ranges.size() < m_pieces.size()};
  const PanelFactor k_of_b{block_begins(b, &Block::rows, inner), n_ranges.size() < n_pieces.size()};
  const std::size_t longest = k_of_a.assembled || k_of_b.assembled ? times.panel : inner.valid;
  std::vector<BlockProduct> products;
  for (const auto& [k, count] : panels(inner, k_of_a, k_of_b, part.valid(), longest, list))
    for (const Range& m : m_ranges)
      for (const Range& n : n_ranges)
        products.push_back({.a = pieces_of(a, {m, k}, rank),
                            .b = pieces_of(b, {k, n}, rank),
                            .c = {origin.rank, origin.i + m.offset - part.rows.offset,
                                  origin.j + n.offset - part.cols.offset},
                            .size = {m.valid, n.valid, k.valid},
                            .first = k.offset == inner.offset,
                            .same_a = n.offset != part.cols.offset,
                            .same_b = n_ranges.size() == 1 && m.offset != part.rows.offset,
                            .repeats = count});
  return products;
}

/// Returns how many rows of C (m, n) and of A fit into a cache beside B, or 0 if strips of rows do
/// not pay.
[[nodiscard]] inline std::size_t rows_per_strip(ProductSize s, const GemmTimes& times)
{
  constexpr std::size_t least = 128;  // BLAS packs B for each strip
  constexpr std::size_t whole = 64;   // BLAS computes this many rows of C at a time
  if (s.n * s.k == 0 || s.n * s.k > times.cached / 2) return 0;
  const std::size_t rows = times.cached / (s.n + s.k) / whole * whole;
  return rows >= least && rows < s.m ? rows : 0;
}

/// Returns the products for parts that have the same rows, in strips of `rows` rows.
[[nodiscard]] inline std::vector<BlockProduct>
products_by_strips(const Placement& a, const Placement& b, const std::vector<TargetPart>& parts,
                   const Range& inner, int rank, std::size_t rows, ProductList list)
{
  std::vector<BlockProduct> products;
  const Range all = parts.front().part.rows;
  for (const auto& [m, count] : slices(all, rows, list, block_begins(a, &Block::rows, all)))
    for (std::size_t p = 0; p < parts.size(); ++p)
    {
      const auto& [part, origin] = parts[p];
      const Range &n = part.cols, &k = inner;
      products.push_back({.a = pieces_of(a, {m, k}, rank),
                          .b = pieces_of(b, {k, n}, rank),
                          .c = {origin.rank, origin.i + m.offset - all.offset, origin.j},
                          .size = {m.valid, n.valid, k.valid},
                          .same_a = p > 0,
                          .same_b = m.offset != all.offset,
                          .b_slot = p,
                          .repeats = count});
    }
  return products;
}

/// Returns the products over these inner indices for all parts of C that `rank` computes.
[[nodiscard]] inline std::vector<BlockProduct>
block_products(const Placement& a, const Placement& b, const std::vector<TargetPart>& parts,
               const Range& inner, int rank, const GemmTimes& times,
               ProductList list = ProductList::to_compute)
{
  std::vector<BlockProduct> products;
  const auto append = [&](std::vector<BlockProduct> more) {
    for (auto& product : more) products.push_back(std::move(product));
  };
  for (auto begin = parts.begin(); begin != parts.end();)
  {
    const Range rows = begin->part.rows;
    const auto end =
        std::find_if(begin, parts.end(), [&](const auto& p) { return p.part.rows != rows; });
    const std::vector<TargetPart> same_rows(begin, end);
    begin = end;
    ProductSize size{rows.valid, 0, inner.valid};
    for (const auto& p : same_rows) size.n += p.part.cols.valid;
    if (const std::size_t strip = rows_per_strip(size, times); strip > 0)
      append(products_by_strips(a, b, same_rows, inner, rank, strip, list));
    else
      for (const auto& target : same_rows)
        append(products_by_panels(a, b, target, inner, rank, times, list));
  }
  return products;
}

}  // namespace cubist::CUBIST_ABI::detail
