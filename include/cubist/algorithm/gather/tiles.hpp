// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// In which order a rank multiplies the pieces of C = A B, when it receives the pieces of A and B
// from other ranks one by one, and sends those of C to other ranks.
//
// A tile is a product of one piece of A and one of B, for one piece of C. The order: tiles whose
// operands are this rank's own, which need not wait; those for other ranks' pieces of C, which are
// in flight while the rest is multiplied; those for this rank's piece of C.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/block.hpp"

namespace cubist::detail
{

/// From `begin` up to `end`.
struct Interval
{
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// A product of sub-blocks: C(rows, cols) += A(rows, inner) B(inner, cols).
struct Tile
{
  Interval rows;
  Interval cols;
  Interval inner;
  std::size_t a = 0;  // the pieces that it reads, and the one that it adds to
  std::size_t b = 0;
  std::size_t c = 0;
  bool first = true;  // of those that write to its block of C
  bool last = true;   // of those that write to its piece of C
};

/// How many equal pieces a matrix has, which one is this rank's own, and what dimension they cut.
struct Pieces
{
  std::size_t count = 1;
  std::size_t own = 0;
  Dimension cut = Dimension::none;

  /// The number of pieces of its rows, or of its columns.
  [[nodiscard]] std::size_t of(Dimension d) const { return cut == d ? count : 1; }
  /// The pieces of the transpose.
  [[nodiscard]] Pieces t() const
  {
    if (cut == Dimension::none) return *this;
    return {count, own, cut == Dimension::rows ? Dimension::cols : Dimension::rows};
  }
};

/// A part of two cuts of one extent: piece i of the one, piece j of the other.
struct Overlap
{
  Interval part;
  std::size_t i;
  std::size_t j;
};

/// @pre `n` is a multiple of p and of q
[[nodiscard]] inline std::vector<Overlap> overlaps(std::size_t n, std::size_t p, std::size_t q)
{
  std::vector<Overlap> all;
  for (std::size_t i = 0, j = 0, begin = 0; i < p && j < q;)
  {
    const std::size_t end_i = n / p * (i + 1);
    const std::size_t end_j = n / q * (j + 1);
    const std::size_t end = std::min(end_i, end_j);
    all.push_back({{begin, end}, i, j});
    begin = end;
    if (end == end_i) ++i;
    if (end == end_j) ++j;
  }
  return all;
}

/// Sorts tiles into the order in which they are multiplied.
[[nodiscard]] inline std::vector<Tile> sort_tiles(std::vector<Tile> tiles, Pieces a, Pieces b,
                                                  Pieces c)
{
  const auto step_of = [&](const Tile& t) {
    const int foreign = (t.a != a.own ? 1 : 0) + (t.b != b.own ? 1 : 0);
    const bool stays = t.c == c.own;
    return foreign == 0 ? int{stays} : (stays ? 3 : 1) + foreign;
  };
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const Tile& s, const Tile& t) { return step_of(s) < step_of(t); });
  for (std::size_t i = 0; i < tiles.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
    {
      if (tiles[j].rows.begin == tiles[i].rows.begin && tiles[j].cols.begin == tiles[i].cols.begin)
        tiles[i].first = false;
      if (tiles[j].c == tiles[i].c) tiles[j].last = false;
    }
  return tiles;
}

/// C = A B, whose pieces may cut any of the three extents.
/// @param s padded, so that all pieces of an extent are equal  @param valid without padding
[[nodiscard]] inline std::vector<Tile> product_tiles(ProductSize s, ProductSize valid, Pieces a,
                                                     Pieces b, Pieces c)
{
  constexpr auto rows = Dimension::rows;
  constexpr auto cols = Dimension::cols;
  const auto clipped = [](Interval i, std::size_t end) {
    return Interval{std::min(i.begin, end), std::min(i.end, end)};
  };
  std::vector<Tile> tiles;
  for (const auto& m : overlaps(s.m, a.of(rows), c.of(rows)))
    for (const auto& n : overlaps(s.n, b.of(cols), c.of(cols)))
      for (const auto& k : overlaps(s.k, a.of(cols), b.of(rows)))
        tiles.push_back({clipped(m.part, valid.m), clipped(n.part, valid.n),
                         clipped(k.part, valid.k), m.i + k.i, k.j + n.i, m.j + n.j});
  return sort_tiles(tiles, a, b, c);
}

}  // namespace cubist::detail
