// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Who holds which elements of a matrix, as a value that all ranks compute alike: a block-cyclic
// layout by its formula, a list of rectangles of the program's, or the blocks of a DistMatrix; and
// a window on it, which is a sub-matrix.
//
//   Distribution{BlockCyclic{…}}                      nothing is stored but the integers
//   Distribution{shape, rectangles}                   every rank passes the whole list
//   Distribution::gather(world, shape, mine)          every rank passes its own rectangles
//   Distribution::of<Layout, Axes>(shape, extents)    the blocks of a DistMatrix, without a mesh
//
// It has no elements: foreign_matrix.hpp adds where this rank has them.

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/block.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/foreign/block_cyclic.hpp"

namespace cubist::CUBIST_ABI
{

/// A rectangle of a global matrix that a rank holds.
struct RankRectangle
{
  int rank = 0;       ///< the rank that holds it
  std::size_t i = 0;  ///< its first row
  std::size_t j = 0;  ///< its first column
  Shape shape;
  StorageOrder order = StorageOrder::row_major;  ///< of its elements in memory

  friend constexpr bool operator==(const RankRectangle&, const RankRectangle&) = default;
};

/// Who holds which elements of a matrix, or of a sub-matrix. Cheap to copy.
class Distribution
{
 public:
  /// A block-cyclic matrix.
  /// @throws ArgumentError for blocks of no element, a grid without processes, or a source outside
  /// of the grid
  Distribution(const BlockCyclic& layout);

  /// A matrix of rectangles; the list is the same on every rank. Empty rectangles are allowed.
  /// @throws ShapeError for rectangles that overlap, leave elements without a rank, or lie outside
  /// of the matrix; ArgumentError for a negative rank
  Distribution(Shape shape, std::vector<RankRectangle> rectangles);

  /// The same of rectangles of which each rank passes its own, in any order; their `rank` is
  /// ignored. Collective. Each rank sends five integers a rectangle.
  /// @throws as the constructor, on all ranks
  template <Communicator C>
  [[nodiscard]] static Distribution gather(C& world, Shape shape,
                                           std::span<const RankRectangle> mine);

  /// The blocks of a DistMatrix of layout `L` on a mesh of these extents; padding does not count.
  /// Replicas are known as such.
  /// @tparam A Axes<…> of the mesh
  template <class L, class A>
  [[nodiscard]] static Distribution of(Shape shape, const typename A::Array& extents,
                                       Quanta quanta);
  /// The blocks of a matrix.
  template <class T, class M>
  [[nodiscard]] static Distribution of(const DistView<T, M>& matrix);

  /// The shape of the matrix, or of the sub-matrix.
  [[nodiscard]] Shape shape() const { return window_; }
  /// Ranks from this number on hold no element.
  [[nodiscard]] int ranks() const;
  /// The number of elements of the whole matrix that a rank stores; those outside of a sub-matrix
  /// count.
  [[nodiscard]] std::size_t stored(int rank) const;
  /// The shape of the local array of a rank; of a matrix of rectangles, of its rectangle `index`.
  [[nodiscard]] Shape local_shape(int rank, std::size_t index = 0) const;
  /// The number of local arrays of a rank: 1, or the number of its rectangles.
  [[nodiscard]] std::size_t local_arrays(int rank) const;

  /// Rows [i, i + rows) and columns [j, j + cols).
  /// @throws ShapeError unless they lie inside
  [[nodiscard]] Distribution submatrix(std::size_t i, std::size_t j, Shape shape) const;

  /// Whether the same ranks hold the same elements by the same formula or list.
  friend bool operator==(const Distribution& a, const Distribution& b);

 private:
  std::optional<BlockCyclic> cyclic_;
  std::shared_ptr<const std::vector<RankRectangle>> list_;
  std::size_t i_ = 0;
  std::size_t j_ = 0;
  Shape window_;
};

}  // namespace cubist::CUBIST_ABI
