// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// In which order a rank multiplies the pieces of C = op(A) op(B), when the pieces of A and B come
// from other ranks one by one, and those of C go to other ranks.
//
// A tile is a product of one piece of A and one of B, for one piece of C. First come the tiles
// whose operands are this rank's own, which need not wait; then those for other ranks' pieces of C,
// which travel while the rest is multiplied; last those that stay here.

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

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

/// A product of sub-blocks: C(rows, cols) += op(A)(rows, inner) op(B)(inner, cols).
struct Tile
{
  Interval rows;
  Interval cols;
  Interval inner;
  std::size_t a = 0;  // the pieces that it needs, and makes a part of
  std::size_t b = 0;
  std::size_t c = 0;
  bool first = true;  // nothing has been written to its block of C before
  bool last = true;   // nothing will be written to its piece of C any more
};

/// How many equal pieces an operand has, and which is this rank's own.
struct Pieces
{
  std::size_t count = 1;
  std::size_t own = 0;
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

/// Sorts tiles into the order of their products.
[[nodiscard]] inline std::vector<Tile> in_order(std::vector<Tile> tiles, Pieces a, Pieces b,
                                                Pieces c)
{
  std::stable_sort(tiles.begin(), tiles.end(), [&](const Tile& s, const Tile& t) {
    const auto rank = [&](const Tile& x) {
      const int foreign = (x.a != a.own ? 1 : 0) + (x.b != b.own ? 1 : 0);
      return std::tuple{foreign != 0, x.c == c.own, foreign};
    };
    return rank(s) < rank(t);
  });
  for (std::size_t i = 0; i < tiles.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
    {
      if (tiles[j].rows.begin == tiles[i].rows.begin && tiles[j].cols.begin == tiles[i].cols.begin)
        tiles[i].first = false;
      if (tiles[j].c == tiles[i].c) tiles[j].last = false;
    }
  return tiles;
}

/// C = A B: pieces of A and C are rows, pieces of B cut the inner extent.
[[nodiscard]] inline std::vector<Tile> product_tiles(ProductSize s, Pieces a, Pieces b, Pieces c)
{
  std::vector<Tile> tiles;
  for (const auto& rows : overlaps(s.m, a.count, c.count))
    for (const auto& inner : overlaps(s.k, b.count, 1))
      tiles.push_back({rows.part, {0, s.n}, inner.part, rows.i, inner.i, rows.j});
  return in_order(std::move(tiles), a, b, c);
}

/// C = A B^T: pieces of A and C are rows, pieces of B are columns of C.
[[nodiscard]] inline std::vector<Tile> product_transposed_tiles(ProductSize s, Pieces a, Pieces b,
                                                                Pieces c)
{
  std::vector<Tile> tiles;
  for (const auto& rows : overlaps(s.m, a.count, c.count))
    for (const auto& cols : overlaps(s.n, b.count, 1))
      tiles.push_back({rows.part, cols.part, {0, s.k}, rows.i, cols.i, rows.j});
  return in_order(std::move(tiles), a, b, c);
}

/// C = A^T B: pieces of A and B cut the inner extent, pieces of C are rows.
[[nodiscard]] inline std::vector<Tile> transposed_product_tiles(ProductSize s, Pieces a, Pieces b,
                                                                Pieces c)
{
  std::vector<Tile> tiles;
  for (const auto& inner : overlaps(s.k, a.count, b.count))
    for (const auto& rows : overlaps(s.m, c.count, 1))
      tiles.push_back({rows.part, {0, s.n}, inner.part, inner.i, inner.j, rows.i});
  return in_order(std::move(tiles), a, b, c);
}

}  // namespace cubist::detail
