// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An engine's maps, sums and folds as kernels, which `Kernels` runs: on a device (launch.hpp) or,
// for tests, on the host.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/cuda/folds.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/groups.hpp"
#include "cubist/engine/cuda/maps.hpp"
#include "cubist/engine/cuda/rows.hpp"
#include "cubist/engine/cuda/tiling.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/matrix_groups.hpp"
#include "cubist/engine/shapes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The maps, sums and folds of an engine, each of them a kernel.
/// @tparam Kernels  runs the kernels
template <class Kernels>
class KernelOperations
{
 public:
  template <Element T>
  void fill(MatrixView<T> out, T value) const
  {
    for_each(FillWith<T>{value}, out);
  }

  /// Calls f(m(i, j), …) for all i and j; f writes to elements that are not const.
  template <class F, class First, class... T>
  void for_each(F f, MatrixView<First> first, MatrixView<T>... m) const
  {
    (require_shape(m.shape(), first.shape()), ...);
    if (first.size() == 0) return;
    // Contiguous matrices are mapped as one row.
    const Shape row{1, first.size()};
    const IgnoreIndices<F> g{f};
    if (first.contiguous() && (m.contiguous() && ...))
      map_elements<Kernels>(row, g, MatrixView<First>{first.data(), row},
                            MatrixView<T>{m.data(), row}...);
    else
      map_elements<Kernels>(first.shape(), g, first, m...);
  }

  /// Applies f to all groups of matrices in one kernel; f and groups are in device memory.
  template <class F, class... T>
  void for_each_in_all(const F* f, const MatrixGroup* groups, std::size_t count,
                       MatrixTypes<T...>) const
  {
    Tiling tiling{{count, 1}};
    tiling.blocks_down = static_cast<unsigned>(count);
    Kernels::run(GroupKernel<F, T...>{tiling, f, groups});
  }

  /// Sets out(i, j) = f(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    for_each(StoreResult<F>{f}, out, MatrixView<const In>{in}...);
  }

  /// Maps as map() does, and sets sums(0, j) to the sum over i of out(i, j); `sums` has one row.
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    require_shape(sums.shape(), Shape{1, out.cols()});
    if (out.cols() > 0)
      sum_columns<Kernels>(out.shape(), sums.data(), StoreAndSum<F>{f}, out,
                           MatrixView<const In>{in}...);
  }

  /// Sets out(i, j) = f(i, j, in(i, j), …).
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() > 0)
      map_elements<Kernels>(out.shape(), StoreIndexedResult<F>{f}, out,
                            MatrixView<const In>{in}...);
  }

  /// Sets out(i, j) = f(i)(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() > 0)
      map_elements<Kernels>(out.shape(), StoreIndexedResult<OfRow<F>>{{f}}, out,
                            MatrixView<const In>{in}...);
  }

  /// Sets out(0, j) to the sum over i of in(i, j); `out` has one row.
  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    require_shape(out.shape(), Shape{1, in.cols()});
    if (in.cols() > 0) sum_columns<Kernels>(in.shape(), out.data(), OfValues<Itself>{}, in);
  }

  /// Sets out(0, j) to the sum over i of f(i)(in(i, j), …); `out` has one row.
  template <class T, class F, class First, class... In>
  void column_sums_of(F f, MatrixView<T> out, MatrixView<First> first, MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{1, first.cols()});
    (require_shape(in.shape(), first.shape()), ...);
    if (first.cols() > 0)
      sum_columns<Kernels>(first.shape(), out.data(), OfValues<OfRow<F>>{{f}},
                           MatrixView<const First>{first}, MatrixView<const In>{in}...);
  }
  /// Calls f(row) for each row of matrices of this shape (TeamRow).
  template <class F>
  void for_each_row(Shape shape, const F& f) const
  {
    if (shape.rows > 0) pass_rows<Kernels>(shape, f);
  }
  /// Whether for_each_row is fast: a few long rows do not fill a device.
  [[nodiscard]] static bool passes_rows(Shape shape)
  {
    return shape.cols < long_row || rows_fill_device<typename Kernels::LargeTeam>(shape);
  }

  /// Sets out(targets[l], :) to the sum of the rows of `in` in list l, in the list's order. With
  /// `adds`, adds that sum, which is rounded to T first.
  template <Scalar T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool adds) const
  {
    require_shape(in.shape(), Shape{in.rows(), out.cols()});
    const Shape sums{lists.count, out.cols()};
    if (sums.size() > 0) map_elements<Kernels>(sums, StoreSumOfRows<T>{in, lists, out, adds});
  }

  /// Sets out(i, 0) to the fold of f(i, j, in(i, j), …) over all columns j, starting with init.
  template <class T, class Combine, class F, class First, class... In>
  void row_fold(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
                MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{first.rows(), 1});
    (require_shape(in.shape(), first.shape()), ...);
    if (first.rows() > 0)
      fold_rows<Kernels>(out, first.shape(), DeviceValue<T>{init}, combine, OfValues<F>{f},
                         MatrixView<const First>{first}, MatrixView<const In>{in}...);
  }

  /// Returns the fold of f(i, j, in(i, j), …) over all rows and columns, starting with init.
  template <class T, class Combine, class F, class First, class... In>
  [[nodiscard]] T fold(T init, Combine combine, F f, MatrixView<First> first,
                       MatrixView<In>... in) const
  {
    (require_shape(in.shape(), first.shape()), ...);
    if (first.size() == 0) return init;
    return static_cast<T>(fold_all<Kernels>(first.shape(), DeviceValue<T>{init}, combine,
                                            OfValues<F>{f}, MatrixView<const First>{first},
                                            MatrixView<const In>{in}...));
  }

  /// Sets out(0, 0) to what fold() returns, without waiting for it.
  template <RealScalar T, class Combine, class F, class First, class... In>
  void fold_to(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
               MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{1, 1});
    (require_shape(in.shape(), first.shape()), ...);
    if (first.size() == 0) return fill(out, init);
    detail::fold_to<Kernels>(out, false, first.shape(), DeviceValue<T>{init}, combine,
                             OfValues<F>{f}, MatrixView<const First>{first},
                             MatrixView<const In>{in}...);
  }

  /// Sets out(i, j) to the value that f(i, j, in(i, j), …) returns, and folds the terms that it
  /// returns (ValueAndTerm); `out` may be one of the inputs.
  template <class V, class Combine, class T, class F, class... In>
  [[nodiscard]] V map_fold(V init, Combine combine, MatrixView<T> out, F f,
                           MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() == 0) return init;
    return static_cast<V>(fold_all<Kernels>(out.shape(), DeviceValue<V>{init}, combine,
                                            StoreAndFold<F>{f}, out, MatrixView<const In>{in}...));
  }

  /// Sets result(0, 0) to what map_fold() returns, without waiting for it.
  template <RealScalar V, class Combine, class T, class F, class... In>
  void map_fold_to(MatrixView<V> result, V init, Combine combine, MatrixView<T> out, F f,
                   MatrixView<In>... in) const
  {
    require_shape(result.shape(), Shape{1, 1});
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() == 0) return fill(result, init);
    detail::fold_to<Kernels>(result, false, out.shape(), DeviceValue<V>{init}, combine,
                             StoreAndFold<F>{f}, out, MatrixView<const In>{in}...);
  }
};

}  // namespace cubist::CUBIST_ABI::detail
