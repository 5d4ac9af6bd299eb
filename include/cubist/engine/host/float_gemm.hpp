// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of matrices whose elements BLAS does not support: 16-bit ones, and weights that are
// stored in fewer bits (engine/stored_weight.hpp). They are computed in float, and a result is
// rounded once.
//
//   few rows   the matrix is read once, as it is stored (few_rows_gemm.hpp, q8_rows.hpp)
//   else       panels of both operands are converted into buffers that stay in the cache, and BLAS
//              multiplies these; the sums over K stay in float

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/host/blas_threads.hpp"
#include "cubist/engine/host/few_rows_gemm.hpp"
#include "cubist/engine/host/q8_rows.hpp"
#include "cubist/engine/host/targets.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/stored_weight.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Up to this many rows of A, a product reads the other matrix as it is stored.
inline constexpr std::size_t most_rows_as_stored = 16;

/// Rows and columns of a panel: three panels of 512 x 512 floats fit in a cache of 3 MiB. Each
/// thread of BLAS gets this many rows.
inline constexpr std::size_t panel_edge = 512;
[[nodiscard]] inline std::size_t panel_rows()
{
  return panel_edge * static_cast<std::size_t>(std::max(blas_threads(), 1));
}

/// Returns a matrix in a buffer that the thread keeps for its next product.
/// @param which the operand that the buffer is for
template <class E, class A>
[[nodiscard]] MatrixView<A> kept_matrix(std::size_t which, Shape shape)
{
  static thread_local std::array<typename E::template Buffer<A>, 3> buffers;
  return {enlarge(buffers[which], shape.size()), shape};
}

/// Returns the matrix in the type in which products are computed: itself, or a copy.
template <class E, class T>
[[nodiscard]] auto wide_copy(const E& engine, std::size_t which, MatrixView<T> m,
                             bool with_elements = true)
{
  using V = std::remove_const_t<T>;
  if constexpr (ShortReal<V>)
  {
    const auto wide = kept_matrix<E, float>(which, m.shape());
    if (with_elements) engine.map(wide, Same{}, m);
    return wide;
  }
  else
    return m;
}

/// Computes C = alpha op(A) op(B) + beta C by panels; C is not read when beta is 0.
/// @param panel_of_b panel_of_b(k, j, shape) returns the block of op(B) at (k, j), stored as op_b
/// says
/// @param width the columns of a panel of op(B)
template <class E, RealScalar T, class PanelOfB>
void gemm_by_panels(const E& engine, ProductSize size, Op op_b, T alpha, Operand<const T> a, T beta,
                    MatrixView<T> c, PanelOfB panel_of_b, std::size_t width = panel_edge)
{
  using A = Accumulator<T>;
  for (std::size_t i = 0; i < size.m; i += panel_rows())
    for (std::size_t j = 0; j < size.n; j += width)
    {
      const Shape part{std::min(panel_rows(), size.m - i), std::min(width, size.n - j)};
      const MatrixView<T> c_part = c.block(i, j, part);
      const MatrixView<A> sums = wide_copy(engine, 2, c_part, beta != T{});
      // Without inner indices, the product is beta C.
      for (std::size_t k = 0; k == 0 || k < size.k; k += panel_edge)
      {
        const std::size_t inner = std::min(panel_edge, size.k - k);
        const auto a_part = a.block(i, k, {part.rows, inner});
        const MatrixView<const A> wide_a = wide_copy(engine, 0, a_part.stored());
        const MatrixView<const A> wide_b = panel_of_b(k, j, Shape{inner, part.cols});
        engine.template gemm<A>(a.op(), op_b, alpha, wide_a, wide_b, k == 0 ? A{beta} : A{1}, sums);
      }
      if constexpr (ShortReal<T>) engine.map(c_part, Same{}, sums);
    }
}

/// Computes C = alpha op(A) op(B) + beta C; C is not read when beta is 0.
/// @throws ShapeError unless the shapes fit
template <class E, ShortReal T>
void gemm_in_float(const E& engine, Op op_a, Op op_b, T alpha, MatrixView<const T> a,
                   MatrixView<const T> b, T beta, MatrixView<T> c)
{
  const ProductSize size = product_size(op_a, a.shape(), op_b, b.shape(), c.shape());
  if (op_a == Op::none && has_few_rows(size, most_rows_as_stored))
  {
    const MatrixView<const float> wide_a = wide_copy(engine, 0, a);
    const auto wide_c = wide_copy(engine, 2, c, beta != T{});
    FewRowsGemm<float, T>::multiply(op_b, alpha, wide_a, b, beta, wide_c);
    return engine.map(c, Same{}, wide_c);
  }
  gemm_by_panels(
      engine, size, op_b, alpha, Operand<const T>{a, op_a}, beta, c,
      [&](std::size_t k, std::size_t j, Shape shape) {
        return wide_copy(engine, 1, Operand<const T>{b, op_b}.block(k, j, shape).stored());
      });
}

/// Computes a triangle of C = alpha op(A) op(A)^T + beta C; the triangle is not read when beta is
/// 0.
/// @throws ShapeError unless the shapes fit
template <class E, ShortReal T>
void syrk_in_float(const E& engine, Triangle triangle, Op op, T alpha, MatrixView<const T> a,
                   T beta, MatrixView<T> c)
{
  const ProductSize size = syrk_size(op, a.shape(), c.shape());
  const auto sums = wide_copy(engine, 2, c, beta != T{});
  for (std::size_t k = 0; k == 0 || k < size.k; k += panel_edge)
  {
    const Shape part{size.m, std::min(panel_edge, size.k - k)};
    const MatrixView<const float> wide_a =
        wide_copy(engine, 0, Operand<const T>{a, op}.block(0, k, part).stored());
    engine.template syrk<float>(triangle, op, alpha, wide_a, k == 0 ? float{beta} : 1, sums);
  }
  for (std::size_t i = 0; i < c.rows(); ++i)
    engine.map(row_of(triangle, c, i), Same{}, row_of(triangle, sums, i));
}

/// Returns elements [k, k + shape.rows) of columns [j, j + shape.cols) of a stored weight, each
/// column as a row.
template <class A, class E>
[[nodiscard]] MatrixView<const A> wide_panel(const E& engine, const StoredView& w, std::size_t k,
                                             std::size_t j, Shape shape)
{
  const std::size_t place = w.first + k;
  const std::size_t begin = place / q8_block * q8_block;
  const MatrixView<A> wide =
      kept_matrix<E, A>(1, {shape.cols, pad(place + shape.rows, q8_block) - begin});
  const auto from = [&](auto stored) {
    engine.map(wide, Same{}, stored.block(j, begin, wide.shape()));
  };
  if (w.type == StoredWeights::bfloat16) from(w.as<bfloat16>());
  if (w.type == StoredWeights::half) from(w.as<half>());
  if (w.type == StoredWeights::q8) Q8Rows<A>::widen(best_target(), w, j, begin, wide);
  return wide.block(0, place - begin, {shape.cols, shape.rows});
}

/// Computes Y = X W for a stored weight W.
/// @throws ShapeError unless the shapes fit
template <class E, RealScalar T>
void multiply_stored(const E& engine, MatrixView<const T> x, const StoredView& w, MatrixView<T> y)
{
  using A = Accumulator<T>;
  const ProductSize size = product_size(Op::none, x.shape(), Op::none, w.shape(), y.shape());
  if (size.m > most_rows_as_stored)
  {
    // A panel of W is not much larger than one of X, so that a short prompt needs little memory.
    const std::size_t width = std::clamp(size.m, panel_edge / 4, panel_edge);
    return gemm_by_panels(
        engine, size, Op::transpose, T{1}, Operand<const T>{x}, T{}, y,
        [&](std::size_t k, std::size_t j, Shape shape) {
          return wide_panel<A>(engine, w, k, j, shape);
        },
        width);
  }
  const MatrixView<A> padded = kept_matrix<E, A>(0, {size.m, w.padded});
  engine.fill(padded, A{});
  engine.map(padded.block(0, w.first, x.shape()), Same{}, x);
  const MatrixView<A> sums = wide_copy(engine, 2, y, false);
  const MatrixView<const A> rows = padded;
  const auto multiply = [&]<class V>(MatrixView<const V> stored) {
    FewRowsGemm<A, V>::multiply_transposed(A{1}, rows, stored, A{}, sums);
  };
  if (w.type == StoredWeights::bfloat16) multiply(w.as<bfloat16>());
  if (w.type == StoredWeights::half) multiply(w.as<half>());
  if (w.type == StoredWeights::q8) Q8Rows<A>::multiply(best_target(), rows, w, sums);
  if constexpr (ShortReal<T>) engine.map(y, Same{}, sums);
}

}  // namespace cubist::CUBIST_ABI::detail
