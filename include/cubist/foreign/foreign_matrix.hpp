// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A matrix that the program has already distributed. cubist reads and writes its elements in the
// program's arrays (foreign/redistribute.hpp).
//
//   ForeignMatrix a{world, BlockCyclic{.shape = {m, n}, .block = {mb, nb}, .grid = {p, q}},
//                   local, lld};                        // ScaLAPACK's
//   ForeignMatrix b{world, distribution, arrays};       // a pointer for each of my rectangles
//   a.submatrix(i, j, {rows, cols})                     // counted from 0, unlike ScaLAPACK's

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/comm/communicator.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/distribution.hpp"
#include "cubist/matrix/dist_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// The memory of a rank that holds one rectangle, or all blocks of a block-cyclic matrix. Elements
/// are in the order of the distribution.
template <class T>
struct LocalArray
{
  T* data = nullptr;   ///< the address of the first element; may be null if there are none
  std::size_t ld = 0;  ///< the leading dimension: the distance between lines, in elements
};

namespace detail
{

/// Returns the number of elements from the first to the last of a local array.
[[nodiscard]] constexpr std::size_t array_length(Shape s, StorageOrder order, std::size_t ld)
{
  const Shape lines = order == StorageOrder::row_major ? s : Shape{s.cols, s.rows};
  return s.size() == 0 ? 0 : (lines.rows - 1) * ld + lines.cols;
}

/// @throws MeshError if the ranks of the matrix `name` are not all in a communicator of `ranks`
inline void require_ranks(const Distribution& d, int ranks, const char* name)
{
  require<MeshError>(d.ranks() <= ranks, "got ", name, " of ", d.ranks(),
                     " ranks on a communicator of ", ranks,
                     ", so ranks would be missing; use a communicator of all of them");
}

/// @throws ShapeError unless a rank has an array for each of its rectangles
inline void require_number_of_arrays(std::size_t number, std::size_t rectangles, int rank)
{
  require<ShapeError>(number == rectangles, "rank ", rank, " passed ", number,
                      " local arrays, but it holds ", rectangles,
                      " rectangles of the matrix; pass an array for each rectangle");
}

/// @throws ShapeError for a leading dimension so small that lines of a local array would overlap
inline void require_leading_dimension(const Distribution& d, int rank, std::size_t index,
                                      std::size_t ld, const char* name)
{
  const Shape s = d.local_shape(rank, index);
  const std::size_t line = d.local_order(rank, index) == StorageOrder::row_major ? s.cols : s.rows;
  require<ShapeError>(s.size() == 0 || ld >= line, "rank ", rank, " passed a local array of ", name,
                      " with a leading dimension of ", ld, ", but its lines have ", line,
                      " elements, so they would overlap; use at least that");
}

/// @param uses whether the elements are read or written
/// @throws ShapeError for a wrong leading dimension, or if the rank has elements but no array
template <class T>
void require_array(const Distribution& d, int rank, std::size_t index, const LocalArray<T>& array,
                   const char* name, bool uses = true)
{
  const Shape held = d.held_shape(rank, index);
  require<ShapeError>(!uses || held.size() == 0 || array.data != nullptr, "rank ", rank,
                      " passed no array for its ", held, " elements of ", name,
                      ", so there is nothing to read or write; pass the address of its first "
                      "element");
  require_leading_dimension(d, rank, index, array.ld, name);
}

}  // namespace detail

/// A matrix whose elements are in the program's arrays on each rank.
/// @tparam T const for a matrix that is only read
template <class T>
requires Scalar<std::remove_const_t<T>>
class ForeignMatrix
{
 public:
  /// The type of its elements.
  using Value = std::remove_const_t<T>;

  /// Refers to a matrix with one local array per rank. Sends nothing.
  /// @param data the local array; may be null if this rank has no elements
  /// @param ld its leading dimension: LLD
  /// @throws MeshError if the distribution has more ranks than `world`. On this rank alone,
  /// ShapeError for a leading dimension below the length of a column (column-major) or of a row,
  /// for a null array if the rank has elements, and for a rank with several arrays
  template <Communicator C>
  ForeignMatrix(const C& world, Distribution distribution, T* data, std::size_t ld)
      : ForeignMatrix{world, std::move(distribution)}
  {
    if (distribution_.local_arrays(rank_) == 0) return;
    arrays_ = {{data, ld}};
    require_arrays();
  }

  /// Refers to a sub-matrix of this shape in a block-cyclic matrix. Sends nothing.
  /// @throws what the first constructor and that of Distribution throw
  template <Communicator C>
  ForeignMatrix(const C& world, const BlockCyclicMatrix<T>& matrix, Shape shape)
      : ForeignMatrix{world, Distribution{matrix.place, shape}, matrix.data, matrix.ld}
  {
  }

  /// Refers to a matrix with a local array for each of this rank's rectangles, in the order of the
  /// list. Sends nothing.
  /// @throws what the first constructor throws, and ShapeError for a wrong number of arrays
  template <Communicator C>
  ForeignMatrix(const C& world, Distribution distribution, std::vector<LocalArray<T>> arrays)
      : ForeignMatrix{world, std::move(distribution)}
  {
    arrays_ = std::move(arrays);
    require_arrays();
  }

  /// Refers to a matrix with one local array per rank, and checks the length of the array. All
  /// ranks of `world` call it, and all throw if one of them finds a mistake.
  /// @throws what the first constructor throws, and ShapeError for an array that is too short
  template <Communicator C>
  [[nodiscard]] static ForeignMatrix checked(C& world, Distribution distribution,
                                             std::span<T> local, std::size_t ld)
  {
    ForeignMatrix m{world, std::move(distribution)};
    if (m.distribution_.local_arrays(m.rank_) > 0) m.arrays_ = {{local.data(), ld}};
    // Every rank checks the arrays of all ranks, so all throw the same error.
    std::vector<std::uint64_t> all(2 * static_cast<std::size_t>(world.size()));
    world.all_gather(std::vector<std::uint64_t>{local.size(), ld}, all);
    const Distribution& d = m.distribution_;
    for (int rank = 0; rank < world.size(); ++rank)
    {
      const std::uint64_t* const got = all.data() + 2 * static_cast<std::size_t>(rank);
      const std::size_t arrays = d.local_arrays(rank);
      detail::require_number_of_arrays(std::min(arrays, std::size_t{1}), arrays, rank);
      if (arrays == 0) continue;
      detail::require_leading_dimension(d, rank, 0, got[1], "a matrix");
      const std::size_t wanted =
          detail::array_length(d.local_shape(rank), d.local_order(rank), got[1]);
      require<ShapeError>(got[0] >= wanted, "rank ", rank, " passed a local array of ", got[0],
                          " elements, but its part of the matrix ends at element ", wanted,
                          ", so memory after the array would be accessed; pass the whole array");
    }
    return m;
  }

  /// Converts to a reference that only reads the matrix.
  operator ForeignMatrix<const T>() const requires(!std::is_const_v<T>)
  {
    ForeignMatrix<const T> m;
    m.distribution_ = distribution_;
    m.rank_ = rank_;
    m.ranks_ = ranks_;
    m.exposed_ = exposed_;
    for (const LocalArray<T>& a : arrays_) m.arrays_.push_back({a.data, a.ld});
    return m;
  }

  /// The distribution: which rank holds which elements.
  [[nodiscard]] const Distribution& distribution() const { return distribution_; }
  /// The shape of the matrix, or of the sub-matrix.
  [[nodiscard]] Shape shape() const { return distribution_.shape(); }
  /// This rank in the communicator that the constructor got.
  [[nodiscard]] int rank() const { return rank_; }
  /// The number of ranks of the communicator that the constructor got.
  [[nodiscard]] int ranks() const { return ranks_; }
  /// This rank's arrays.
  [[nodiscard]] std::span<const LocalArray<T>> arrays() const { return arrays_; }
  /// The shape of every rank's row-major array if an engine allocated it, so that windows expose it
  /// in place; else (0, 0).
  [[nodiscard]] Shape exposed() const { return exposed_; }

  /// Returns rows [i, i + rows) and columns [j, j + cols), in the same memory. Indices count from
  /// 0.
  /// @throws ShapeError unless they lie inside
  [[nodiscard]] ForeignMatrix submatrix(std::size_t i, std::size_t j, Shape shape) const
  {
    ForeignMatrix part{*this};
    part.distribution_ = distribution_.submatrix(i, j, shape);
    return part;
  }

  /// Refers to the elements of a DistMatrix in place, for sub-matrices of it, and for conversions
  /// from one DistMatrix to another with op, alpha or beta. It must not outlive the matrix.
  template <class M>
  requires in_host_memory<typename M::Engine>
  [[nodiscard]] static ForeignMatrix of(const DistView<T, M>& matrix)
  {
    return of(matrix, matrix.padded.elements().data());
  }
  /// Refers to the elements of a DistMatrix in `block`, a copy of this rank's block in host memory,
  /// padding included.
  template <class M>
  [[nodiscard]] static ForeignMatrix of(const DistView<T, M>& matrix, T* block)
  {
    static_assert(
        has_elements<typename M::Engine>,
        "this matrix is simulated, so it has no elements that could be converted; convert "
        "matrices on a backend that computes, or simulate with matrices from `generate`");
    ForeignMatrix m;
    m.distribution_ = Distribution::of(matrix);
    m.rank_ = matrix.mesh.rank();
    m.ranks_ = matrix.mesh.parent().size();
    m.exposed_ = matrix.block(0).padded();
    if (m.distribution_.local_arrays(m.rank_) > 0) m.arrays_ = {{block, matrix.padded.ld()}};
    return m;
  }

 private:
  template <class U>
  requires Scalar<std::remove_const_t<U>>
  friend class ForeignMatrix;

  ForeignMatrix() = default;

  template <Communicator C>
  ForeignMatrix(const C& world, Distribution distribution)
      : distribution_{std::move(distribution)},
        rank_{world.rank()},
        ranks_{world.size()}
  {
    detail::require_ranks(distribution_, ranks_, "a matrix");
  }

  void require_arrays() const
  {
    detail::require_number_of_arrays(arrays_.size(), distribution_.local_arrays(rank_), rank_);
    for (std::size_t k = 0; k < arrays_.size(); ++k)
      detail::require_array(distribution_, rank_, k, arrays_[k], "a matrix");
  }

  Distribution distribution_;
  int rank_ = 0;
  int ranks_ = 1;
  Shape exposed_;
  std::vector<LocalArray<T>> arrays_;
};

}  // namespace cubist::CUBIST_ABI
