// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One dimension of a block-cyclic matrix: which part of the grid has an index, and where in its
// local array.
//
//   block 0 has `first` indices and is on part `source`; block b has `block` indices and is on part
//   (source + b) mod parts. A part stores its blocks in their order, without gaps.
//
// With source -1 every part has all indices.

#include <algorithm>
#include <cstddef>

#include "cubist/foreign/block_cyclic.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct CyclicDimension
{
  std::size_t first;
  std::size_t block;
  int source;
  int parts;
  bool local_is_global = false;  // every part stores all indices, and reads those that it has here

  [[nodiscard]] static constexpr CyclicDimension rows(const BlockCyclic& m)
  {
    return {m.first_block.rows == 0 ? m.block.rows : m.first_block.rows, m.block.rows, m.row_source,
            m.grid.rows};
  }
  [[nodiscard]] static constexpr CyclicDimension cols(const BlockCyclic& m)
  {
    return {m.first_block.cols == 0 ? m.block.cols : m.first_block.cols, m.block.cols, m.col_source,
            m.grid.cols};
  }

  [[nodiscard]] constexpr bool replicated() const { return source < 0; }

  /// The number of the first n indices that a part has. This is also the local place of index n, if
  /// the part has it.
  [[nodiscard]] constexpr std::size_t count(int part, std::size_t n) const
  {
    if (replicated()) return n;
    const auto p = static_cast<std::size_t>(parts);
    // The first of the part's blocks, not counting block 0, which has another size.
    const std::size_t own = static_cast<std::size_t>(part - source + 2 * parts - 1) % p;
    const std::size_t in_first = std::min(n, first);
    const std::size_t whole = (n - in_first) / block;
    const std::size_t rest = (n - in_first) % block;
    std::size_t found = part == source ? in_first : 0;
    if (whole > own) found += ((whole - own - 1) / p + 1) * block;
    return whole % p == own ? found + rest : found;
  }

  /// The part that has an index.
  /// @pre not replicated
  [[nodiscard]] constexpr int owner(std::size_t n) const
  {
    if (n < first) return source;
    const auto p = static_cast<std::size_t>(parts);
    return static_cast<int>((static_cast<std::size_t>(source) + 1 + (n - first) / block) % p);
  }

  /// The index behind the block that has index n.
  [[nodiscard]] constexpr std::size_t end_of_block(std::size_t n) const
  {
    return n < first ? first : first + ((n - first) / block + 1) * block;
  }

  /// Calls f(index, local, length) for the indices of [begin, end) that a part has, block by block.
  template <class F>
  constexpr void for_each_run(int part, std::size_t begin, std::size_t end, F f) const
  {
    if (begin >= end) return;
    if (replicated() || parts == 1) return f(begin, begin, end - begin);
    // Goes to the part's first block at or behind `begin`, then from one of its blocks to the next.
    std::size_t at = begin;
    while (at < end && owner(at) != part) at = end_of_block(at);
    const std::size_t skip = static_cast<std::size_t>(parts - 1) * block;
    for (std::size_t local = count(part, at); at < end;)
    {
      const std::size_t stop = std::min(end_of_block(at), end);
      f(at, local_is_global ? at : local, stop - at);
      local += stop - at;
      at = stop + skip;
    }
  }
};

/// The dimension with its reading shared out: if all parts store all indices, each part reads some
/// of the blocks.
[[nodiscard]] constexpr CyclicDimension shared_reading(CyclicDimension d)
{
  if (!d.replicated()) return d;
  d.source = 0;
  d.local_is_global = true;
  return d;
}

}  // namespace cubist::CUBIST_ABI::detail
