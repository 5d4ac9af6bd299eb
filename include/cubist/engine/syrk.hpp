// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The product of a matrix with its own transpose, C = alpha A A^T + beta C. One triangle is
// computed and the other one mirrored, which takes half the operations of gemm.
//
//   A (N, K)    C (N, N) symmetric, in the memory of one engine
//
// An engine may compute the triangle in one call (ComputesTriangles in engine/engine.hpp).
// Otherwise the triangle is cut into two smaller ones and the block between them. The block is a
// gemm, and the triangles are cut again, down to blocks that are computed whole. Source: LAPACK's
// blocked syrk.

#include <algorithm>
#include <cstddef>

#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/operand.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/widened.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Element (j, i) of a matrix, as a function of (i, j).
template <class T>
struct ElementOfTranspose
{
  MatrixView<const T> m;
  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const { return wide(m(j, i)); }
};

/// Element (i, j) of a symmetric matrix, one triangle of which is known.
template <class T>
struct ElementOfTriangle
{
  Triangle triangle;
  MatrixView<const T> m;
  CUBIST_HOST_DEVICE auto operator()(std::size_t i, std::size_t j) const
  {
    const bool is_known = triangle == Triangle::lower ? j <= i : j >= i;
    return is_known ? wide(m(i, j)) : wide(m(j, i));
  }
};

/// x + beta c in a triangle, and c outside it
template <class V>
struct UpdatedTriangle
{
  Triangle triangle;
  V beta;
  CUBIST_HOST_DEVICE V operator()(std::size_t i, std::size_t j, V x, V c) const
  {
    if (triangle == Triangle::lower ? j > i : j < i) return c;
    return beta == V{} ? x : x + beta * c;
  }
};

/// Computes a triangle of C = alpha A A^T + beta C from two smaller ones, and the block between
/// them.
/// @param smaller smaller(part, block) computes the triangle of a diagonal block of C
template <Engine E, Scalar T, class F>
void syrk_by_halves(const E& engine, Triangle triangle, T alpha, Operand<const T> a, T beta,
                    MatrixView<T> c, F smaller)
{
  const std::size_t half = c.rows() / 2;
  const std::size_t rest = c.rows() - half;
  const auto first = a.block(0, 0, {half, a.cols()});
  const auto second = a.block(half, 0, {rest, a.cols()});
  smaller(first, c.block(0, 0, {half, half}));
  smaller(second, c.block(half, half, {rest, rest}));
  if (triangle == Triangle::lower)
    cubist::multiply<E, T>(engine, alpha, second, first.t(), beta, c.block(half, 0, {rest, half}));
  else
    cubist::multiply<E, T>(engine, alpha, first, second.t(), beta, c.block(0, half, {half, rest}));
}

/// How many columns are transposed at a time, which is how many rows are read side by side. A
/// device transposes all in one launch.
template <class E>
inline constexpr std::size_t transposed_columns =
    in_host_memory<E>&& has_elements<E> ? 16 : std::size_t{1} << 62;

/// The largest diagonal block that gemm computes whole: small on the host, so that few operations
/// are wasted, and large on a device, so that few kernels are launched.
template <class E>
inline constexpr std::size_t whole_diagonal_block = in_host_memory<E> ? 64 : 512;

/// Computes a triangle with gemm.
/// @param workspace holds a block of the diagonal
template <Engine E, RealScalar T>
void syrk_by_gemm(const E& engine, Triangle triangle, T alpha, Operand<const T> a, T beta,
                  MatrixView<T> c, T* workspace)
{
  if (c.rows() == 0) return;
  if (c.rows() <= whole_diagonal_block<E>)
  {
    const MatrixView<T> whole{workspace, c.shape()};
    cubist::multiply<E, T>(engine, alpha, a, a.t(), T{}, whole);
    using V = Accumulator<T>;
    engine.map_indexed(c, UpdatedTriangle<V>{triangle, static_cast<V>(beta)},
                       MatrixView<const T>{whole}, MatrixView<const T>{c});
    return;
  }
  syrk_by_halves<E, T>(engine, triangle, alpha, a, beta, c,
                       [&](Operand<const T> part, MatrixView<T> block) {
                         syrk_by_gemm(engine, triangle, alpha, part, beta, block, workspace);
                       });
}

}  // namespace detail

/// Computes a triangle of C = alpha A A^T + beta C, which is not read when beta is 0. The other
/// triangle is not changed.
/// @throws ShapeError unless the shapes fit
template <Engine E, RealScalar T>
void syrk(const E& engine, Triangle triangle, T alpha, Operand<const T> a, T beta, MatrixView<T> c)
{
  if constexpr (detail::ComputesTriangles<E, T>)
    engine.syrk(triangle, a.op(), alpha, a.stored(), beta, c);
  else
  {
    (void)syrk_size(Op::none, a.shape(), c.shape());
    const std::size_t block = std::min(c.rows(), detail::whole_diagonal_block<E>);
    typename E::template Buffer<T> workspace(block * block);
    detail::syrk_by_gemm<E, T>(engine, triangle, alpha, a, beta, c, workspace.data());
  }
}

/// Computes B = A^T.
/// @pre A and B share no memory
/// @throws ShapeError unless the shapes fit
template <Engine E, RealScalar T>
void transpose(const E& engine, MatrixView<const T> a, MatrixView<T> b)
{
  require_shape(b.shape(), op_shape(true, a.shape()));
  for (std::size_t j = 0; j < b.cols(); j += detail::transposed_columns<E>)
  {
    const std::size_t cols = std::min(detail::transposed_columns<E>, b.cols() - j);
    engine.map_indexed(b.block(0, j, {b.rows(), cols}),
                       detail::ElementOfTranspose<T>{a.block(j, 0, {cols, a.cols()})});
  }
}

/// Completes a symmetric matrix from the triangle that is known.
/// @throws ShapeError unless C is square
template <Engine E, RealScalar T>
void mirror(const E& engine, Triangle known, MatrixView<T> c)
{
  require_shape(c.shape(), {c.rows(), c.rows()});
  const MatrixView<const T> in{c};
  const std::size_t n = c.rows();
  for (std::size_t j = 0; j < n; j += detail::transposed_columns<E>)
  {
    const std::size_t cols = std::min(detail::transposed_columns<E>, n - j);
    engine.map_indexed(c.block(j, j, {cols, cols}),
                       detail::ElementOfTriangle<T>{known, in.block(j, j, {cols, cols})});
    const std::size_t i = known == Triangle::lower ? 0 : j + cols;
    const std::size_t rows = known == Triangle::lower ? j : n - i;
    if (rows > 0) transpose(engine, in.block(j, i, {cols, rows}), c.block(i, j, {rows, cols}));
  }
}

}  // namespace cubist::CUBIST_ABI
