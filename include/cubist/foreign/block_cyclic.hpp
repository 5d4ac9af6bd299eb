// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's block-cyclic layout, as the integers of its descriptors, and the order of elements in
// a rank's local array.
//
//   A (M, N): block (I, J) of MB x NB elements is on the process ((RSRC + I) mod P,
//             (CSRC + J) mod Q) of a grid of P x Q; with IMB x INB, the first row of blocks has IMB
//             rows, the first column of blocks has INB columns, and all others MB rows, NB columns
//
// A process stores its blocks in order, without gaps, as one local matrix. The last blocks may be
// smaller. A source of -1 means that the matrix is replicated: each row of processes holds all
// rows, or each column of processes holds all columns.
//
// Source: Blackford et al., "ScaLAPACK Users' Guide", section 4.3; Petitet, "PBLAS: descriptors of
// type BLOCK_CYCLIC_2D_INB".

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/foreign/index_set.hpp"

namespace cubist::CUBIST_ABI
{

/// The direction in which consecutive elements of a local array, or consecutive ranks of a grid,
/// lie.
enum class StorageOrder : std::uint8_t
{
  row_major,    ///< along a row, as in C
  column_major  ///< along a column, as in Fortran
};

/// A grid of P x Q processes, which are the first P Q ranks of a communicator. Later ranks hold no
/// elements.
struct ProcessGrid
{
  int rows = 1;  ///< P
  int cols = 1;  ///< Q
  /// Process (p, q) is rank p Q + q in row-major order (BLACS, MPI's Cartesian grids), else
  /// q P + p.
  StorageOrder order = StorageOrder::row_major;

  /// The number of processes.
  [[nodiscard]] constexpr int size() const { return rows * cols; }
  /// Returns the rank of process (p, q).
  [[nodiscard]] constexpr int rank(int p, int q) const
  {
    return order == StorageOrder::row_major ? p * cols + q : q * rows + p;
  }
  /// Returns the row of a rank in the grid.
  [[nodiscard]] constexpr int row(int rank) const
  {
    return order == StorageOrder::row_major ? rank / cols : rank % rows;
  }
  /// Returns the column of a rank in the grid.
  [[nodiscard]] constexpr int col(int rank) const
  {
    return order == StorageOrder::row_major ? rank % cols : rank / rows;
  }
  friend constexpr bool operator==(const ProcessGrid&, const ProcessGrid&) = default;
};

/// The integers of a block-cyclic layout, and the order of the local arrays.
struct BlockCyclic
{
  Shape shape = {};       ///< M, N
  Shape block = {};       ///< MB, NB; the last blocks may be smaller
  ProcessGrid grid = {};  ///< P, Q
  /// RSRC: the row of the grid that holds the first rows. With -1, every row of the grid holds all
  /// rows.
  int row_source = 0;
  /// CSRC: the column of the grid that holds the first columns. With -1, every column holds all
  /// columns.
  int col_source = 0;
  Shape first_block = {};  ///< IMB, INB; 0 stands for MB, or for NB
  /// The order of elements in the local array of every rank.
  StorageOrder order = StorageOrder::column_major;

  friend constexpr bool operator==(const BlockCyclic&, const BlockCyclic&) = default;
};

/// The place of a sub-matrix in a block-cyclic matrix. It begins at row i and column j, counted
/// from 0.
struct SubMatrixPlace
{
  BlockCyclic layout;  ///< the layout of the whole matrix
  std::size_t i = 0;   ///< the first row
  std::size_t j = 0;   ///< the first column

  friend constexpr bool operator==(const SubMatrixPlace&, const SubMatrixPlace&) = default;
};

/// A sub-matrix of a block-cyclic matrix. This rank's elements are in one array.
/// @tparam T const for a matrix that is only read
template <class T>
struct BlockCyclicMatrix
{
  SubMatrixPlace place;  ///< where the sub-matrix lies
  T* data = nullptr;     ///< the local array of the whole matrix; may be null if it is empty
  std::size_t ld = 0;    ///< its leading dimension

  /// Converts to a reference that only reads the matrix.
  operator BlockCyclicMatrix<const T>() const requires(!std::is_const_v<T>)
  {
    return {place, data, ld};
  }
};

/// Returns the layout with one rectangle per rank, as on MPI's Cartesian grids: blocks of ceil(M /
/// P) x ceil(N / Q), in the order of the grid. The last ranks of a row or column of the grid may
/// have smaller blocks, or none.
[[nodiscard]] constexpr BlockCyclic one_block_a_rank(Shape shape, const ProcessGrid& grid,
                                                     StorageOrder order = StorageOrder::row_major)
{
  const auto part = [](std::size_t n, int parts) {
    const std::size_t size = parts > 0 ? ceil_div(n, static_cast<std::size_t>(parts)) : n;
    return size > 0 ? size : 1;
  };
  return {shape, {part(shape.rows, grid.rows), part(shape.cols, grid.cols)}, grid, 0, 0, {}, order};
}

namespace detail
{

/// Returns the indices of a dimension that each part of a grid holds, or one set if every part
/// holds all.
[[nodiscard]] inline std::vector<IndexSet> cyclic_sets(std::size_t n, std::size_t first,
                                                       std::size_t block, int source, int parts)
{
  if (source < 0) return {IndexSet::interval(0, n)};
  std::vector<IndexSet> sets;
  for (int part = 0; part < parts; ++part)
    sets.push_back(IndexSet::cyclic(n, first > 0 ? first : block, block,
                                    static_cast<std::size_t>((part - source + parts) % parts),
                                    static_cast<std::size_t>(parts)));
  return sets;
}

/// Returns the rows that each row of the grid holds, or one set if every row holds all.
[[nodiscard]] inline std::vector<IndexSet> row_sets(const BlockCyclic& a)
{
  return cyclic_sets(a.shape.rows, a.first_block.rows, a.block.rows, a.row_source, a.grid.rows);
}
/// Returns the columns that each column of the grid holds, or one set if every column holds all.
[[nodiscard]] inline std::vector<IndexSet> col_sets(const BlockCyclic& a)
{
  return cyclic_sets(a.shape.cols, a.first_block.cols, a.block.cols, a.col_source, a.grid.cols);
}
/// Returns the sets of a sub-matrix.
[[nodiscard]] inline std::vector<IndexSet> windows(std::vector<IndexSet> sets, std::size_t begin,
                                                   std::size_t size)
{
  for (IndexSet& set : sets) set = set.window(begin, size);
  return sets;
}
/// Returns the set of one part.
[[nodiscard]] inline const IndexSet& set_of(const std::vector<IndexSet>& sets, int part)
{
  return sets[sets.size() == 1 ? 0 : static_cast<std::size_t>(part)];
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
