// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What attention keeps of one block of scores (attention.hpp): matrices of scores, and rows of one
// number for each row of them.

#include <algorithm>
#include <cstddef>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/nn/kernels/attention_functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

template <RealScalar T, Engine E>
class AttentionWorkspace
{
 public:
  /// Has memory for blocks of this shape, of `matrices` matrices of scores.
  void reserve(const E& engine, Shape shape, std::size_t matrices)
  {
    for (std::size_t m = 0; m < matrices; ++m) enlarge(scores_[m], shape.size());
    for (auto& each : rows_) enlarge(each, shape.rows);
    if (columns_.size() >= shape.cols) return;
    columns_ = Columns(shape.cols);
    engine.map_indexed(MatrixView<ColumnIndex>{columns_.data(), {1, shape.cols}}, ColumnOf{});
  }

  [[nodiscard]] MatrixView<T> scores(std::size_t matrix, Shape shape)
  {
    return {scores_[matrix].data(), shape};
  }
  [[nodiscard]] MatrixView<T> row(std::size_t number, std::size_t n)
  {
    return {rows_[number].data(), {1, n}};
  }
  /// The number of each column, as a matrix like m.
  [[nodiscard]] MatrixView<const ColumnIndex> columns(MatrixView<T> m) const
  {
    return {columns_.data(), m.rows(), m.cols(), 0};
  }

 private:
  using Buffer = typename E::template Buffer<T>;
  using Columns = typename E::template Buffer<ColumnIndex>;

  static void enlarge(Buffer& buffer, std::size_t n)
  {
    if (buffer.size() < n) buffer = Buffer(n);
  }

  Buffer scores_[3]{Buffer(0), Buffer(0), Buffer(0)};
  Buffer rows_[4]{Buffer(0), Buffer(0), Buffer(0), Buffer(0)};
  Columns columns_ = Columns(0);
};

}  // namespace cubist::CUBIST_ABI::detail
