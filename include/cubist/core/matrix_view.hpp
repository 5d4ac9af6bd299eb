// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A view of a row-major matrix in host or device memory that the view does not own: pointer, shape,
// and leading dimension. A block of the matrix is another view. Only an engine accesses the
// elements.

#include <cstddef>
#include <span>
#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"

namespace cubist::CUBIST_ABI
{

template <class T>
class MatrixView
{
 public:
  MatrixView() = default;

  /// @pre ld >= cols; or ld is 0, every row is the same memory, and it is only read
  CUBIST_HOST_DEVICE MatrixView(T* data, std::size_t rows, std::size_t cols, std::size_t ld)
      : data_{data},
        rows_{rows},
        cols_{cols},
        ld_{ld}
  {
  }

  /// Makes a view of contiguous rows.
  MatrixView(T* data, Shape shape)
      : MatrixView{data, shape.rows, shape.cols, shape.cols}
  {
  }

  /// Returns a read-only view of the same matrix.
  operator MatrixView<const T>() const requires(!std::is_const_v<T>)
  {
    return {data_, rows_, cols_, ld_};
  }

  [[nodiscard]] CUBIST_HOST_DEVICE T* data() const { return data_; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t rows() const { return rows_; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t cols() const { return cols_; }
  /// The leading dimension: the distance between two rows, in elements.
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t ld() const { return ld_; }
  [[nodiscard]] Shape shape() const { return {rows_, cols_}; }
  [[nodiscard]] std::size_t size() const { return rows_ * cols_; }

  /// Returns a pointer to the first element of row i.
  [[nodiscard]] CUBIST_HOST_DEVICE T* row(std::size_t i) const { return data_ + i * ld_; }
  [[nodiscard]] CUBIST_HOST_DEVICE T& operator()(std::size_t i, std::size_t j) const
  {
    return data_[i * ld_ + j];
  }

  /// Returns rows [i, i + rows) and columns [j, j + cols), without a copy.
  /// @pre they lie inside the matrix
  [[nodiscard]] MatrixView block(std::size_t i, std::size_t j, Shape shape) const
  {
    // The data of an empty matrix may be null.
    return {shape.size() == 0 ? data_ : data_ + i * ld_ + j, shape.rows, shape.cols, ld_};
  }

  /// Returns the first row, repeated as `rows` rows: a bias, broadcast over a batch.
  /// @pre there is a row
  [[nodiscard]] MatrixView<const T> repeated(std::size_t rows) const
  {
    return {data_, rows, cols_, 0};
  }

  /// Whether the rows follow each other without gaps.
  [[nodiscard]] bool contiguous() const { return ld_ == cols_ || rows_ <= 1; }

  /// Returns all elements, row by row.
  /// @throws ShapeError unless the view is contiguous
  [[nodiscard]] std::span<T> elements() const
  {
    require<ShapeError>(contiguous(), "got a view of ", rows_, " x ", cols_,
                        " elements whose rows are ", ld_,
                        " apart, so it is not contiguous in memory; copy it to a buffer first");
    return {data_, size()};
  }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t ld_ = 0;
};

}  // namespace cubist::CUBIST_ABI
