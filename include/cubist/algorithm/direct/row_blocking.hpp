// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The order in which a rank multiplies its parts of C = A B. Parts of many rows, few columns and
// few inner indices are blocked by rows, so that B and a strip of A and C stay in a core's own
// cache:
//
//   assemble B(:, cols) of each part, if it is in several pieces
//   for each strip of rows
//     assemble A(strip, :) alike
//     for each part that has these rows
//       C(strip, cols) = A(strip, :) B(:, cols)
//
// BLAS itself would pack all rows before it multiplies them, and read and write C once for each
// panel of the inner indices. Measured: Cube3D, 8 ranks, 8192 x 256 x 256 in double, ratio to BLAS
// 0.81 -> 1.02 (docs/decisions/0029-row-blocking.md; the row of docs/performance.md for that
// shape).

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A block of C that a rank computes, and where it writes it.
struct TargetPart
{
  Block part;
  Corner origin;
};

/// How many rows of C, (m, n), and of A fit a cache beside B; 0 if blocking by rows does not pay.
[[nodiscard]] inline std::size_t rows_per_strip(ProductSize s, const GemmTimes& times)
{
  constexpr std::size_t least = 128;  // BLAS packs B for each strip
  constexpr std::size_t whole = 64;
  if (s.n * s.k == 0 || s.n * s.k > times.cached / 2) return 0;
  const std::size_t rows = times.cached / (s.n + s.k) / whole * whole;
  return rows >= least && rows < s.m ? rows : 0;
}

/// The products of parts that have the same rows, strips of `rows` of them at a time.
[[nodiscard]] inline std::vector<BlockProduct>
products_by_rows(const Placement& a, const Placement& b, const std::vector<TargetPart>& parts,
                 const Range& inner, int rank, std::size_t rows)
{
  std::vector<BlockProduct> products;
  const Range all = parts.front().part.rows;
  for (std::size_t i = 0; i < all.valid; i += rows)
  {
    const std::size_t height = std::min(rows, all.valid - i);
    const Range strip{all.offset + i, height, height};
    for (std::size_t p = 0; p < parts.size(); ++p)
    {
      const auto& [part, origin] = parts[p];
      products.push_back({.a = pieces_of(a, {strip, inner}, rank),
                          .b = pieces_of(b, {inner, part.cols}, rank),
                          .c = {origin.rank, origin.i + i, origin.j},
                          .size = {height, part.cols.valid, inner.valid},
                          .same_a = p > 0,
                          .same_b = i > 0,
                          .b_slot = p});
    }
  }
  return products;
}

/// The products of all parts.
[[nodiscard]] inline std::vector<BlockProduct>
products_of_parts(const Placement& a, const Placement& b, const std::vector<TargetPart>& parts,
                  const Range& inner, int rank, const GemmTimes& times)
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
      append(products_by_rows(a, b, same_rows, inner, rank, strip));
    else
      for (const auto& [part, origin] : same_rows)
        append(block_products(a, b, part, inner, origin, rank, times));
  }
  return products;
}

}  // namespace cubist::CUBIST_ABI::detail
