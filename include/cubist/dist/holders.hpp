// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which ranks hold which rectangle of a global matrix. Replicas hold equal ones, other ranks
// disjoint ones.

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"

namespace cubist::detail
{

/// A rectangle of a global matrix, from element (i, j) on.
struct Rectangle
{
  std::size_t i = 0;
  std::size_t j = 0;
  Shape shape;

  [[nodiscard]] bool empty() const { return shape.size() == 0; }
};

/// The elements that lie in both blocks.
[[nodiscard]] inline Rectangle intersection(const Block& a, const Block& b)
{
  const auto common = [](const Range& r, const Range& s) {
    const std::size_t begin = std::max(r.offset, s.offset);
    const std::size_t end = std::min(r.offset + r.valid, s.offset + s.valid);
    return std::pair{begin, end > begin ? end - begin : 0};
  };
  const auto [i, rows] = common(a.rows, b.rows);
  const auto [j, cols] = common(a.cols, b.cols);
  return {i, j, {rows, cols}};
}

/// The replicas of each block that has elements, by its first element.
using Holders = std::map<std::pair<std::size_t, std::size_t>, std::vector<int>>;

template <class BlockOf>
[[nodiscard]] Holders holders(int ranks, BlockOf block_of)
{
  Holders all;
  for (int r = 0; r < ranks; ++r)
    if (const Block b = block_of(r); b.valid().size() > 0)
      all[{b.rows.offset, b.cols.offset}].push_back(r);
  return all;
}

}  // namespace cubist::detail
