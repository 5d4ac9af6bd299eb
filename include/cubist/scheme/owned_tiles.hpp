// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What one rank multiplies for its part of C = A B, where it can read the pieces of A and B where
// they lie:
//
//   C(rows, cols) += A(rows, inner) B(inner, cols)
//
// for all pieces of A and of B that lie in the part, in the order of the inner indices. Only valid
// elements are multiplied, each product of two once. Pieces that are too thin for the gemm kernel
// are merged with the next.

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/dist/holders.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::detail
{

/// Where a piece of a matrix begins in the block of the rank that is asked for it.
struct Corner
{
  int rank = 0;
  std::size_t i = 0;
  std::size_t j = 0;
};

/// C += [A …] [B; …], for so many inner indices of each piece.
struct OwnedTile
{
  struct Piece
  {
    Corner at;
    std::size_t depth;
  };

  std::vector<Piece> a;
  std::vector<Piece> b;
  Corner c;
  ProductSize size;
  bool first = true;  // nothing has been written to this piece of C before
};

/// Whether the next tile is better multiplied together with this one. Products that add few inner
/// indices mostly read and write C, and pieces that lie apart must be copied to be multiplied
/// together: one factor's where the other lies in one block, else both
/// (docs/decisions/0016-panel-depth.md).
[[nodiscard]] inline bool belong_together(const OwnedTile& t, const OwnedTile& next)
{
  constexpr std::size_t rows_that_pay = 256;  // for the copy of one factor
  const auto one_block = [](const auto& pieces, const auto& more) {
    return pieces.size() == 1 && pieces.front().at.rank == more.front().at.rank;
  };
  const std::size_t depth = next.size.k;
  const std::size_t both = t.size.k + depth;
  if (next.first) return false;
  if (one_block(t.a, next.a)) return depth < 128 && both <= 512 && t.size.m >= rows_that_pay;
  if (one_block(t.b, next.b)) return depth < 128 && both <= 512 && t.size.n >= rows_that_pay;
  return depth < 32 && both <= 128;
}

/// Puts tiles that belong together together.
[[nodiscard]] inline std::vector<OwnedTile> merged(const std::vector<OwnedTile>& tiles)
{
  std::vector<OwnedTile> all;
  for (const auto& t : tiles)
  {
    if (all.empty() || !belong_together(all.back(), t))
    {
      all.push_back(t);
      continue;
    }
    const auto add = [](auto& pieces, const OwnedTile::Piece& p) {
      if (pieces.size() == 1 && pieces.front().at.rank == p.at.rank)
        pieces.front().depth += p.depth;
      else
        pieces.push_back(p);
    };
    add(all.back().a, t.a.front());
    add(all.back().b, t.b.front());
    all.back().size.k += t.size.k;
  }
  return all;
}

/// The tiles of `work`, a block of C, over these inner indices; C is written from `origin` on.
[[nodiscard]] inline std::vector<OwnedTile> owned_tiles(const Placement& a, const Placement& b,
                                                        const Block& work, const Range& inner,
                                                        const Rectangle& origin, int rank)
{
  const auto holder = [rank](const std::vector<int>& replicas) {
    const bool own = std::find(replicas.begin(), replicas.end(), rank) != replicas.end();
    return own ? rank : replicas[static_cast<std::size_t>(rank) % replicas.size()];
  };
  std::vector<OwnedTile> tiles;
  const auto factors = b.holders();
  for (const auto& [_, a_ranks] : a.holders())
  {
    const Block in_a = a[a_ranks.front()];
    const Rectangle left = intersection(in_a, {work.rows, inner});
    if (left.empty()) continue;
    const Range depth{left.j, left.shape.cols, left.shape.cols};
    for (const auto& [__, b_ranks] : factors)
    {
      const Block in_b = b[b_ranks.front()];
      const Rectangle right = intersection(in_b, {depth, work.cols});
      if (right.empty()) continue;
      const Corner from_a{holder(a_ranks), left.i - in_a.rows.offset, right.i - in_a.cols.offset};
      const Corner from_b{holder(b_ranks), right.i - in_b.rows.offset, right.j - in_b.cols.offset};
      tiles.push_back({.a = {{from_a, right.shape.rows}},
                       .b = {{from_b, right.shape.rows}},
                       .c = {rank, left.i - origin.i, right.j - origin.j},
                       .size = {left.shape.rows, right.shape.cols, right.shape.rows}});
    }
  }
  // Pieces come in the order of their inner indices already.
  const auto piece = [](const OwnedTile& t) { return std::tuple{t.c.i, t.c.j}; };
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const auto& s, const auto& t) { return piece(s) < piece(t); });
  for (std::size_t i = 1; i < tiles.size(); ++i)
    tiles[i].first = piece(tiles[i]) != piece(tiles[i - 1]);
  return merged(tiles);
}

}  // namespace cubist::detail
