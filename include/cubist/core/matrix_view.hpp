// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A matrix in somebody else's memory: row-major, with the distance between rows. Blocks of it cost
// nothing. It may point to host or device memory; only an engine looks at the elements.

#include <cstddef>
#include <span>
#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/host_device.hpp"

namespace cubist
{

template <class T>
class MatrixView
{
 public:
  MatrixView() = default;

  /// @pre ld >= cols; or ld is 0, every row is the same, and nobody writes to them
  MatrixView(T* data, std::size_t rows, std::size_t cols, std::size_t ld)
      : data_{data}, rows_{rows}, cols_{cols}, ld_{ld}
  {
  }

  MatrixView(T* data, Shape shape) : MatrixView{data, shape.rows, shape.cols, shape.cols} {}

  /// A view to read from, out of one to write to.
  operator MatrixView<const T>() const requires(!std::is_const_v<T>)
  {
    return {data_, rows_, cols_, ld_};
  }

  [[nodiscard]] CUBIST_HOST_DEVICE T* data() const { return data_; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t rows() const { return rows_; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t cols() const { return cols_; }
  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t ld() const { return ld_; }
  [[nodiscard]] Shape shape() const { return {rows_, cols_}; }
  [[nodiscard]] std::size_t size() const { return rows_ * cols_; }

  [[nodiscard]] CUBIST_HOST_DEVICE T* row(std::size_t i) const { return data_ + i * ld_; }
  [[nodiscard]] CUBIST_HOST_DEVICE T& operator()(std::size_t i, std::size_t j) const
  {
    return data_[i * ld_ + j];
  }

  /// Rows [i, i + rows) and columns [j, j + cols), without a copy.
  /// @pre they lie inside the matrix
  [[nodiscard]] MatrixView block(std::size_t i, std::size_t j, Shape shape) const
  {
    // An empty matrix may have no address to count from.
    return {shape.size() == 0 ? data_ : data_ + i * ld_ + j, shape.rows, shape.cols, ld_};
  }

  /// The first row, standing for each of `rows` rows: what a bias is to a batch of tokens.
  /// @pre there is a row
  [[nodiscard]] MatrixView<const T> repeated(std::size_t rows) const
  {
    return {data_, rows, cols_, 0};
  }

  [[nodiscard]] bool contiguous() const { return ld_ == cols_ || rows_ <= 1; }

  /// All elements, row by row.
  /// @throws ShapeError unless the rows lie one behind the other
  [[nodiscard]] std::span<T> elements() const
  {
    require<ShapeError>(contiguous(), "got a view of ", rows_, " x ", cols_,
                        " elements whose rows are ", ld_,
                        " apart, which is no single run of memory; copy it into a buffer first");
    return {data_, size()};
  }

 private:
  T* data_ = nullptr;
  std::size_t rows_ = 0;
  std::size_t cols_ = 0;
  std::size_t ld_ = 0;
};

}  // namespace cubist
