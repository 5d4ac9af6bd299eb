// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The host's engine. CBLAS computes products of strided blocks, except products of a few rows
// (few_rows_gemm.hpp); other functions are loops over rows, which compilers vectorise.

#include <array>
#include <concepts>
#include <cstddef>
#include <vector>

#if __has_include(<xtensor/containers/xadapt.hpp>)
#include <xtensor/containers/xadapt.hpp>
#include <xtensor/views/xview.hpp>
#else
#include <xtensor/xadapt.hpp>
#include <xtensor/xview.hpp>
#endif

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/cblas.hpp"
#include "cubist/engine/host/element_loop.hpp"
#include "cubist/engine/host/few_rows_gemm.hpp"
#include "cubist/engine/host/float_gemm.hpp"
#include "cubist/engine/host/index_loop.hpp"
#include "cubist/engine/host/row_fold_loop.hpp"
#include "cubist/engine/host/row_sums.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/stored_weight.hpp"
#include "cubist/engine/syrk.hpp"
#include "cubist/engine/widened.hpp"
#include "cubist/memory/huge_pages.hpp"

namespace cubist::CUBIST_ABI
{

/// Computes on a rank's host memory, by BLAS and vectorised loops.
class HostEngine
{
 public:
  template <class T>
  using Buffer = std::vector<T, HugePages<T>>;

  /// Computes C = alpha op(A) op(B) + beta C, where op(A) is (m, k), op(B) (k, n) and C (m, n). C
  /// is not read when beta is 0.
  /// @throws ShapeError unless the shapes fit and are below 2^31
  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    const ProductSize size = product_size(op_a, a.shape(), op_b, b.shape(), c.shape());
    if (c.size() == 0) return;
    if (size.k == 0) return scale(beta, c);
    if constexpr (RealScalar<T>)
      if (const bool is_large = detail::has_few_rows(size);
          op_a == Op::none && (is_large || detail::has_small_rows(op_b, size)))
      {
        if (!is_large || detail::is_faster_than_blas(blas_threads()))
          return detail::FewRowsGemm<T>::multiply(op_b, alpha, a, b, beta, c);
        if (size.m == 1)
        {
          if (beta != T{1}) scale(beta, c);
          return detail::cblas_gemv(op_b, alpha, a.data(), b, c.data());  // reads B once
        }
      }
    detail::cblas_gemm(op_a, op_b, size, alpha, a, b, beta, c);
  }
  template <ShortReal T>  // computes in float, and reads elements as they are stored
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    detail::gemm_in_float(*this, op_a, op_b, alpha, a, b, beta, c);
  }

  /// Computes a triangle of C = alpha op(A) op(A)^T + beta C, where op(A) is (n, k) and C (n, n).
  /// The triangle is not read when beta is 0, and the rest of C is not accessed.
  /// @throws ShapeError unless the shapes fit and are below 2^31
  template <std::floating_point T>
  void syrk(Triangle triangle, Op op, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const
  {
    const ProductSize size = syrk_size(op, a.shape(), c.shape());
    const auto [n, _, k] = size;
    if (n == 0) return;
    // On one thread of OpenBLAS, a syrk takes 0.55 to 0.64 of a gemm's time, and gemms between
    // small syrks take 0.53 to 0.59.
    constexpr std::size_t small = 256;
    if (n > small && k > 0 && blas_threads() == 1)
      return detail::syrk_by_halves(*this, triangle, alpha, Operand<const T>{a, op}, beta, c,
                                    [&](Operand<const T> part, MatrixView<T> block) {
                                      syrk(triangle, part.op(), alpha, part.stored(), beta, block);
                                    });
    if (k == 0 || beta == T{})
      for (std::size_t i = 0; i < n; ++i) scale(beta, detail::row_of(triangle, c, i));
    if (k > 0) detail::cblas_syrk(triangle, op, size, alpha, a, beta, c);
  }
  template <ShortReal T>  // computes in float
  void syrk(Triangle triangle, Op op, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const
  {
    detail::syrk_in_float(*this, triangle, op, alpha, a, beta, c);
  }

  /// Computes Y = X W, and reads the weight as it is stored.
  /// @throws ShapeError unless the shapes fit
  template <RealScalar T>
  void multiply_stored(MatrixView<const T> x, const StoredView& w, MatrixView<T> y) const
  {
    detail::multiply_stored(*this, x, w, y);
  }

  /// Computes B = alpha op(A) B, or B = alpha B op(A), for a triangular matrix A.
  /// @throws ShapeError unless the shapes fit and are below 2^31
  template <detail::BlasScalar T>
  void trmm(const TriangularOperand& how, T alpha, MatrixView<const T> a, MatrixView<T> b) const
  {
    triangular(false, how, alpha, a, b);
  }
  /// Computes B = alpha op(A)^-1 B, or B = alpha B op(A)^-1, for a triangular matrix A.
  template <detail::BlasScalar T>
  void trsm(const TriangularOperand& how, T alpha, MatrixView<const T> a, MatrixView<T> b) const
  {
    triangular(true, how, alpha, a, b);
  }
  /// Computes C = alpha A B + beta C, or C = alpha B A + beta C, for a symmetric or Hermitian
  /// matrix A.
  /// @throws ShapeError unless the shapes fit and are below 2^31
  template <detail::BlasScalar T>
  void symm(const SymmetricOperand& how, T alpha, MatrixView<const T> a, MatrixView<const T> b,
            T beta, MatrixView<T> c) const
  {
    require_square_factor(how.side, a.shape(), c.shape());
    require_shape(b.shape(), c.shape());
    if (c.size() > 0) detail::cblas_symmetric(how, alpha, a, b, beta, c);
  }

  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    require_shape(in.shape(), out.shape());
    detail::RowLoops<T>::copy(in, out);
  }
  template <Element T>
  void upload(MatrixView<const T> in, MatrixView<T> out) const
  {
    copy(in, out);
  }
  template <Element T>
  void download(MatrixView<const T> in, MatrixView<T> out) const
  {
    copy(in, out);
  }

  template <Element T>
  void fill(MatrixView<T> out, T value) const
  {
    detail::RowLoops<T>::fill(out, value);
  }

  /// Calls f(m(i, j), …) for all i and j; f may write to elements that are not const.
  template <class F, class First, class... T>
  void for_each(F f, MatrixView<First> first, MatrixView<T>... m) const
  {
    (require_shape(m.shape(), first.shape()), ...);
    // Contiguous rows are one long row.
    const bool one = first.contiguous() && (m.contiguous() && ...);
    for (std::size_t i = 0; i < (one ? 1 : first.rows()); ++i)
      detail::for_elements(one ? first.size() : first.cols(), detail::on_widened<First, T...>(f),
                           first.row(i), m.row(i)...);
  }

  /// Sets out(i, j) = f(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    for_each(detail::Assign<F>{f}, out, MatrixView<const In>{in}...);
  }

  /// Maps as map() does, and sets sums(0, j) to the sum of out(i, j) over i, in order of i; `sums`
  /// has one row.
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    require_shape(sums.shape(), Shape{1, out.cols()});
    sum_up(sums, [&](auto* sum) {
      const auto add = detail::on_widened<T, In...>(detail::AssignAndAdd<F>{f});
      for (std::size_t i = 0; i < out.rows(); ++i)
        detail::for_elements(out.cols(), add, out.row(i), sum, MatrixView<const In>{in}.row(i)...);
    });
  }

  /// Sets out(i, j) = f(i, j, in(i, j), …).
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    detail::IndexLoop<T, F, In...>::run(out, f, in...);
  }

  /// Sets out(i, j) = f(i)(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    using RowFunction = decltype(f(std::size_t{}));
    for (std::size_t i = 0; i < out.rows(); ++i)
      detail::for_elements(out.cols(),
                           detail::on_widened<T, const In...>(detail::Assign<RowFunction>{f(i)}),
                           out.row(i), MatrixView<const In>{in}.row(i)...);
  }

  /// Sets out(0, j) to the sum of in(i, j) over i, in order of i; `out` has one row.
  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    require_shape(out.shape(), Shape{1, in.cols()});
    sum_up(out, [&](auto* sums) { detail::ColumnSums<T>::run(in, sums); });
  }

  /// Sets out(targets[l], :) to the sum of the rows of `in` in list l, in the list's order. With
  /// `adds`, adds that sum, which is rounded to T first.
  /// @pre the lists name rows that `in` and `out` have
  template <Scalar T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool adds) const
  {
    require_shape(in.shape(), Shape{in.rows(), out.cols()});
    for (std::size_t l = 0; l < lists.count; ++l)
      detail::sum_listed_rows(in, lists.rows + lists.starts[l], lists.rows + lists.starts[l + 1],
                              out.row(static_cast<std::size_t>(lists.targets[l])), adds);
  }

  /// Sets out(i, 0) to init combined with f(i, j, in(i, j), …) for all columns j, in an order that
  /// depends only on their number (engine/host/row_fold_loop.hpp).
  template <class T, class Combine, class F, class First, class... In>
  void row_fold(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
                MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{first.rows(), 1});
    (require_shape(in.shape(), first.shape()), ...);
    detail::fold_rows<Accumulator<T>>(detail::best_target(), out, init, combine, f,
                                      MatrixView<const First>{first}, MatrixView<const In>{in}...);
  }

  /// Returns init combined with f(i, j, in(i, j), …) for all elements, row by row.
  template <class T, class Combine, class F, class First, class... In>
  [[nodiscard]] T fold(T init, Combine combine, F f, MatrixView<First> first,
                       MatrixView<In>... in) const
  {
    (require_shape(in.shape(), first.shape()), ...);
    return detail::FoldLoop<T, Combine, F, First, In...>::run(init, combine, f, first, in...);
  }

  /// Sets out(i, j) to the value that f returns, and folds the terms that it returns
  /// (ValueAndTerm).
  template <class V, class Combine, class T, class F, class... In>
  [[nodiscard]] V map_fold(V init, Combine combine, MatrixView<T> out, F f,
                           MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    return detail::MapFoldLoop<V, Combine, T, F, In...>::run(init, combine, out, f, in...);
  }

  /// Returns an xtensor view of a matrix's elements.
  template <class T>
  [[nodiscard]] auto view(MatrixView<T> m) const
  {
    // An adaptor with strides would lose them in an assignment.
    const std::array<std::size_t, 2> rows{m.rows(), m.ld()};
    constexpr auto layout = xt::layout_type::row_major;  // a program may set another default
    return xt::view(xt::adapt<layout>(m.data(), m.rows() * m.ld(), xt::no_ownership(), rows),
                    xt::all(), xt::range(std::size_t{0}, m.cols()));
  }

 private:
  template <Scalar T>
  void triangular(bool solves, const TriangularOperand& how, T alpha, MatrixView<const T> a,
                  MatrixView<T> b) const
  {
    require_square_factor(how.side, a.shape(), b.shape());
    if (b.size() > 0) detail::cblas_triangular(solves, how, alpha, a, b);
  }

  /// Lets add(row) add to a row of zeros, which becomes `sums`.
  template <class T, class F>
  void sum_up(MatrixView<T> sums, F add) const
  {
    if constexpr (ShortReal<T>)
    {
      static thread_local Buffer<float> row;
      row.assign(sums.cols(), 0.0F);
      add(row.data());
      map(sums, detail::Same{}, MatrixView<const float>{row.data(), sums.shape()});
    }
    else
      fill(sums, T{}), add(sums.data());
  }

  template <Scalar T>
  void scale(T beta, MatrixView<T> c) const
  {
    if (beta == T{}) return fill(c, T{});
    map(c, detail::Scaled<T>{beta}, c);
  }
};

static_assert(Engine<HostEngine>);

}  // namespace cubist::CUBIST_ABI
