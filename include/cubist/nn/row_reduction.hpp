// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reduces each row of a distributed matrix to one number, such as its maximum or its sum. Every
// rank with a part of the row gets the number.
//
// Elements that one rank sends: 2 (p-1)/p per row, p being the number of ranks along the axes that
// cut the columns.

#include <cstddef>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/mesh.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One value for each of this rank's rows.
template <class V, class L, class M>
class RowReduction
{
 public:
  RowReduction(const M& mesh, std::size_t rows, V init)
      : mesh_{mesh},
        init_{init},
        values_{mesh, {rows, 1}}
  {
  }

  /// Combines `init` with f(i, j, y(i, j)) over all columns of the matrix.
  template <class Combine, class F, class T>
  const V* combine(ReduceOp op, Combine combine, F f, MatrixView<const T> y)
  {
    mesh_.engine().row_fold(values_.view(), init_, combine, f, y);
    along_axes(mesh_, typename L::ColAxes{}).all_reduce(values_.view().elements(), op);
    return data();
  }
  /// Copies values from host memory, one for each of this rank's rows.
  const V* upload(std::span<const V> values)
  {
    mesh_.engine().upload(MatrixView<const V>{values.data(), {values.size(), 1}}, values_.view());
    return data();
  }
  /// Sets each value to f(i, 0, x(i, 0)) for its row i.
  template <class F, class X>
  void map(F f, MatrixView<const X> x)
  {
    mesh_.engine().map_indexed(values_.view(), f, x);
  }
  [[nodiscard]] MatrixView<const V> view() { return values_.view(); }
  [[nodiscard]] V* data() { return values_.view().data(); }

 private:
  const M& mesh_;
  V init_;
  BorrowedMatrix<V, M> values_;
};

}  // namespace cubist::CUBIST_ABI::detail
