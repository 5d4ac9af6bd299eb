// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Matrices in blocks on ranks, without a mesh.

#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/matrix/placement.hpp"

namespace cubist::test
{

/// Places a matrix on rows x cols x replicas ranks: rank r has block (r / cols % rows, r % cols).
[[nodiscard]] inline detail::Placement blocks(Shape s, std::size_t rows, std::size_t cols,
                                              std::size_t replicas = 1, bool transposed = false)
{
  // Block i of n indices in p blocks, of which the last are shorter or empty.
  const auto cut = [](std::size_t n, std::size_t p, std::size_t i) {
    return block_range(n, pad(n, p), p, i);
  };
  std::vector<Block> all;
  for (std::size_t r = 0; r < rows * cols * replicas; ++r)
    all.push_back({cut(s.rows, rows, r / cols % rows), cut(s.cols, cols, r % cols)});
  return {all, transposed};
}

}  // namespace cubist::test
