// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The patches of a distribution, for the plan of a conversion. A patch is the elements that one
// rank holds in one local array: some rows times some columns. A block-cyclic matrix has one patch
// per rank, however many blocks it has. The rows and columns of patches are formulas, one for each
// row and column of the grid.

#include <cstddef>
#include <vector>

#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/index_set.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Some rows times some columns in one array.
struct StoredSets
{
  const IndexSet& rows;
  const IndexSet& cols;
  bool row_major = true;
};

/// Returns the sets of a column-major array.
[[nodiscard]] inline StoredSets columns_of(const IndexSet& rows, const IndexSet& cols)
{
  return {rows, cols, false};
}

/// The elements that a rank holds in one local array.
struct Patch
{
  int rank = 0;
  std::size_t rows = 0;   ///< its set of rows, as an index of Patches::row_sets
  std::size_t cols = 0;   ///< its set of columns, as an index of Patches::col_sets
  std::size_t array = 0;  ///< the local array of the rank
  std::size_t group = 0;  ///< the group of patches that hold the same elements
  bool row_major = true;
};

/// The patches of all ranks.
struct Patches
{
  std::vector<IndexSet> row_sets;
  std::vector<IndexSet> col_sets;
  std::vector<Patch> all;          ///< ordered by rank
  std::vector<std::size_t> first;  ///< the first patch of each rank, and of the rank after the last
  std::vector<std::vector<std::size_t>> groups;  ///< replicas of the same elements, by rank

  /// Returns the index of the first patch of a rank, which may have none.
  [[nodiscard]] std::size_t begin(int rank) const
  {
    const auto r = static_cast<std::size_t>(rank);
    return r < first.size() ? first[r] : all.size();
  }
  [[nodiscard]] std::size_t end(int rank) const { return begin(rank + 1); }
  [[nodiscard]] const IndexSet& rows(const Patch& p) const { return row_sets[p.rows]; }
  [[nodiscard]] const IndexSet& cols(const Patch& p) const { return col_sets[p.cols]; }
  [[nodiscard]] StoredSets sets(const Patch& p) const { return {rows(p), cols(p), p.row_major}; }

  /// Returns the patch of a group that `rank` reads: its own, or else one of the replicas, in turn.
  [[nodiscard]] std::size_t source_for(int rank, std::size_t group) const
  {
    const auto& replicas = groups[group];
    if (replicas.size() > 1)
      for (const std::size_t p : replicas)
        if (all[p].rank == rank) return p;
    return replicas[static_cast<std::size_t>(rank) % replicas.size()];
  }

  /// Returns the patches of the transpose.
  [[nodiscard]] Patches transposed() &&
  {
    row_sets.swap(col_sets);
    for (Patch& p : all)
    {
      std::swap(p.rows, p.cols);
      p.row_major = !p.row_major;
    }
    return std::move(*this);
  }
};

}  // namespace cubist::CUBIST_ABI::detail
