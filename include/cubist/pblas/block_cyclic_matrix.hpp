// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// ScaLAPACK's matrices, as the products and sums in this folder take them: a sub-matrix of a
// block-cyclic matrix, and this rank's array.

#include <cstddef>
#include <type_traits>

#include "cubist/foreign/block_cyclic.hpp"
#include "cubist/foreign/foreign_matrix.hpp"

namespace cubist::CUBIST_ABI
{

/// A sub-matrix of a block-cyclic matrix, of which this rank has its elements in one column-major
/// array.
/// @tparam T const for a matrix that is only read
template <class T>
struct BlockCyclicMatrix
{
  SubMatrixPlace place;  ///< where the sub-matrix lies
  T* data = nullptr;     ///< the local array of the whole matrix; may be null without elements
  std::size_t ld = 0;    ///< its leading dimension

  [[nodiscard]] LocalArray<T> local() const { return {data, ld}; }

  /// Refers to this matrix to read it only.
  operator BlockCyclicMatrix<const T>() const requires(!std::is_const_v<T>)
  {
    return {place, data, ld};
  }
};

}  // namespace cubist::CUBIST_ABI
