// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The order in which a rank multiplies its parts of C = A B. High parts of few columns and few
// inner indices are multiplied strip by strip, in a core's own cache, where B stays meanwhile:
//
//   put B(:, cols) of each part together, if it is in several pieces
//   for each strip of rows
//     put A(strip, :) together alike
//     for each part that has these rows
//       C(strip, cols) = A(strip, :) B(:, cols)
//
// BLAS itself would pack all the rows before it multiplies them, and come back to C for each panel
// of the inner indices (docs/decisions/0029-strips.md).

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::detail
{

/// A block of C that a rank makes, and where it writes it.
struct OwnedTarget
{
  Block part;
  Corner origin;
};

/// How many rows of C, (m, n), a cache has room for with those of A, beside B; 0 if the product is
/// not to be cut in strips.
[[nodiscard]] inline std::size_t strip_rows(ProductSize s, const GemmTimes& times)
{
  constexpr std::size_t least = 128;  // BLAS packs B for each strip
  constexpr std::size_t whole = 64;
  if (s.n * s.k == 0 || s.n * s.k > times.cached / 2) return 0;
  const std::size_t rows = times.cached / (s.n + s.k) / whole * whole;
  return rows >= least && rows < s.m ? rows : 0;
}

/// The tiles of parts that have the same rows, strips of `rows` of them at a time.
[[nodiscard]] inline std::vector<OwnedTile> tiles_in_strips(const Placement& a, const Placement& b,
                                                            const std::vector<OwnedTarget>& parts,
                                                            const Range& inner, int rank,
                                                            std::size_t rows)
{
  std::vector<OwnedTile> tiles;
  const Range all = parts.front().part.rows;
  for (std::size_t i = 0; i < all.valid; i += rows)
  {
    const std::size_t height = std::min(rows, all.valid - i);
    const Range strip{all.offset + i, height, height};
    for (std::size_t p = 0; p < parts.size(); ++p)
    {
      const auto& [part, origin] = parts[p];
      tiles.push_back({.a = pieces_of(a, {strip, inner}, rank),
                       .b = pieces_of(b, {inner, part.cols}, rank),
                       .c = {origin.rank, origin.i + i, origin.j},
                       .size = {height, part.cols.valid, inner.valid},
                       .same_a = p > 0,
                       .same_b = i > 0,
                       .b_place = p});
    }
  }
  return tiles;
}

/// The tiles of all parts.
[[nodiscard]] inline std::vector<OwnedTile> tiles_of_parts(const Placement& a, const Placement& b,
                                                           const std::vector<OwnedTarget>& parts,
                                                           const Range& inner, int rank,
                                                           const GemmTimes& times)
{
  std::vector<OwnedTile> tiles;
  const auto append = [&](std::vector<OwnedTile> more) {
    for (auto& tile : more) tiles.push_back(std::move(tile));
  };
  for (auto begin = parts.begin(); begin != parts.end();)
  {
    const Range rows = begin->part.rows;
    const auto end =
        std::find_if(begin, parts.end(), [&](const auto& p) { return p.part.rows != rows; });
    const std::vector<OwnedTarget> beside(begin, end);
    begin = end;
    ProductSize size{rows.valid, 0, inner.valid};
    for (const auto& p : beside) size.n += p.part.cols.valid;
    if (const std::size_t strip = strip_rows(size, times); strip > 0)
      append(tiles_in_strips(a, b, beside, inner, rank, strip));
    else
      for (const auto& [part, origin] : beside)
        append(owned_tiles(a, b, part, inner, origin, rank, times));
  }
  return tiles;
}

}  // namespace cubist::detail
