// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A matrix that is distributed already: it belongs to the program, cubist reads and writes its
// elements in place (foreign/redistribute.hpp).
//
//   ForeignMatrix a{world, BlockCyclic{.shape = {m, n}, .block = {mb, nb}, .grid = {p, q}},
//                   local, lld};                        // ScaLAPACK's
//   ForeignMatrix b{world, distribution, arrays};       // a pointer for each of my rectangles
//   a.submatrix(i, j, {rows, cols})                     // counted from 0, where ScaLAPACK has 1

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/foreign/distribution.hpp"

namespace cubist::CUBIST_ABI
{

/// Where the elements of one rectangle, or of all blocks of a block-cyclic matrix, lie in a rank's
/// memory. The order is that of the distribution.
template <class T>
struct LocalArray
{
  T* data = nullptr;   ///< of the first element; may be null if there are none
  std::size_t ld = 0;  ///< the leading dimension: from one row or column to the next, in elements
};

/// A matrix of which each rank has its elements in arrays of the program's.
/// @tparam T const for a matrix that is only read
template <class T>
requires Scalar<std::remove_const_t<T>>
class ForeignMatrix
{
 public:
  using Value = std::remove_const_t<T>;

  /// A matrix with one local array a rank. Sends nothing.
  /// @param data the local array; null where this rank has no elements
  /// @param ld its leading dimension: LLD
  /// @throws MeshError if the distribution has more ranks than `world`; ShapeError, on this rank
  /// alone, for a leading dimension below the length of a column (column-major) or of a row; for no
  /// array where the rank has elements; for a rank of several arrays
  template <Communicator C>
  ForeignMatrix(const C& world, Distribution distribution, T* data, std::size_t ld);

  /// A matrix with a local array for each of this rank's rectangles, in the order of the list.
  /// Sends nothing.
  /// @throws as above, and ShapeError for another number of arrays
  template <Communicator C>
  ForeignMatrix(const C& world, Distribution distribution, std::vector<LocalArray<T>> arrays);

  /// A matrix with one local array a rank, whose length is known and checked. Collective: all ranks
  /// throw what one of them finds.
  /// @throws as above, and ShapeError for an array that is too short
  template <Communicator C>
  [[nodiscard]] static ForeignMatrix checked(C& world, Distribution distribution,
                                             std::span<T> local, std::size_t ld);

  /// The same matrix, only read.
  operator ForeignMatrix<const T>() const requires(!std::is_const_v<T>);

  [[nodiscard]] const Distribution& distribution() const { return distribution_; }
  [[nodiscard]] Shape shape() const { return distribution_.shape(); }
  /// This rank, and the number of ranks, in the communicator of the constructor.
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return ranks_; }
  /// This rank's arrays.
  [[nodiscard]] std::span<const LocalArray<T>> arrays() const { return arrays_; }

  /// Rows [i, i + rows) and columns [j, j + cols), of the same memory. Indices count from 0.
  /// @throws ShapeError unless they lie inside
  [[nodiscard]] ForeignMatrix submatrix(std::size_t i, std::size_t j, Shape shape) const;

 private:
  template <class U>
  requires Scalar<std::remove_const_t<U>>
  friend class ForeignMatrix;

  Distribution distribution_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<LocalArray<T>> arrays_;
};

}  // namespace cubist::CUBIST_ABI
