// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One number for each row of a distributed matrix, reduced over all its columns, for example a
// row's maximum or sum. Every rank with a part of the row gets it.
//
// Words: 2 (p-1)/p a row, p being the ranks along the axes that cut the columns.

#include <cstddef>
#include <span>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One value for each of this rank's rows.
template <class V, class L, class M>
class RowValues
{
 public:
  explicit RowValues(const M& mesh, std::size_t rows, V init)
      : mesh_{mesh}, init_{init}, data_{take_buffer(rows)}, view_{data_.data(), rows, 1, 1}
  {
  }
  RowValues(const RowValues&) = delete;
  RowValues& operator=(const RowValues&) = delete;
  ~RowValues() { mesh_.template unused_buffers<V>().push_back(std::move(data_)); }

  /// `init` combined with f(i, j, y(i, j)) over all columns of the matrix.
  template <class Combine, class F, class T>
  const V* combine(ReduceOp op, Combine combine, F f, MatrixView<const T> y)
  {
    mesh_.engine().row_fold(view_, init_, combine, f, y);
    along_axes(mesh_, typename L::ColAxes{}).all_reduce(view_.elements(), op);
    return view_.data();
  }
  /// Values from host memory, one for each of this rank's rows.
  const V* upload(std::span<const V> values)
  {
    mesh_.engine().upload(MatrixView<const V>{values.data(), values.size(), 1, 1}, view_);
    return view_.data();
  }
  /// f(i, 0, x(i, 0)) for each of this rank's rows.
  template <class F, class X>
  void map(F f, MatrixView<const X> x)
  {
    mesh_.engine().map_indexed(view_, f, x);
  }
  [[nodiscard]] MatrixView<const V> view() const { return view_; }
  [[nodiscard]] V* data() { return data_.data(); }

 private:
  using Buffer = typename M::Engine::template Buffer<V>;

  [[nodiscard]] Buffer take_buffer(std::size_t rows)
  {
    auto& unused = mesh_.template unused_buffers<V>();
    if (unused.empty()) return Buffer(rows);
    Buffer buffer = std::move(unused.back());
    unused.pop_back();
    buffer.resize(rows);
    return buffer;
  }

  const M& mesh_;
  V init_;
  Buffer data_;
  MatrixView<V> view_;
};

}  // namespace cubist::CUBIST_ABI::detail
