// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Orthogonalizes a matrix by Newton-Schulz, on a grid of ranks: its singular values become about 1.
//
//   X (n, k) rows [row] cols [col], or its transpose X^T (k, n) rows [col] cols [row]; n <= k
//
//   X <- X / max(|X|, epsilon)
//   in each step: A = X X^T (n, n), B = b A + c A^2, X <- a X + B X
//
//   1. X is gathered along row; each rank multiplies its rows by those of all: its part of A's rows
//   2. these parts are summed along col and scattered by rows; A is gathered from all ranks
//   3. each rank computes its rows of B, which are gathered along col
//   4. each rank computes its block of a X + B X
//
// So no rank computes what another one computes. With one rank nothing is sent.
//
// Elements sent per rank and step, with r rows and c columns of ranks and blocks (v, u) of X:
// (r-1) v u + 3 (c-1) v/c n + (r-1) v n; in addition the norm is summed along both axes.
// Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/mesh/axes.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/nn/norm/norm_functions.hpp"

namespace cubist::CUBIST_ABI
{

/// The iteration of Newton-Schulz.
struct NewtonSchulzOptions
{
  int steps = 5;
  std::array<double, 3> coefficients{3.4445, -4.7750, 2.0315};  ///< a, b and c
  double epsilon = 1e-7;  ///< the least number by which the matrix is divided
};

namespace detail
{

/// The ranks on which a matrix is orthogonalized.
template <class B>
using OrthogonalGrid = AxisMesh<Axes<Row, Col>, B>;

/// The norm of X, of which each rank of the grid has a block.
template <class V, class B>
[[nodiscard]] double norm_on_grid(const OrthogonalGrid<B>& grid, MatrixView<V> x)
{
  std::array<double, 1> squares{grid.engine().fold(0.0, Sum{}, SquareOf{}, MatrixView<const V>{x})};
  const auto sum = [&](auto& ranks) {
    if (ranks.size() > 1)
      with_staging_buffer(grid.engine(), std::span<double>{squares},
                          [&](auto one) { ranks.all_reduce(one, ReduceOp::sum); });
  };
  sum(grid.template along<Col>());
  sum(grid.template along<Row>());
  return std::sqrt(squares[0]);
}

/// Replaces X by `scale` times its orthogonal factor. Every rank of the grid calls it.
/// @param x  this rank's block of X, or of X^T, whose rows are without gaps; all blocks have one
/// shape, and are padded with zeros
/// @param is_transposed  whether it is of X^T
/// @pre c divides the rows of a block of X
template <RealScalar V, class B>
void orthogonalize(const OrthogonalGrid<B>& grid, MatrixView<V> x, bool is_transposed,
                   const NewtonSchulzOptions& options, double scale)
{
  using Mesh = OrthogonalGrid<B>;
  using Matrix = BorrowedMatrix<V, Mesh>;
  const auto& engine = grid.engine();
  auto& along_rows = grid.template along<Row>();
  auto& along_cols = grid.template along<Col>();
  const auto r = static_cast<std::size_t>(along_rows.size());
  const auto c = static_cast<std::size_t>(along_cols.size());
  const std::size_t v = is_transposed ? x.cols() : x.rows();
  const std::size_t n = r * v;
  const auto row = static_cast<std::size_t>(along_rows.rank());
  const auto col = static_cast<std::size_t>(along_cols.rank());
  const auto value = [](double number) { return static_cast<V>(number); };
  const auto piece = [](MatrixView<V> all, std::size_t i, Shape shape) {
    return all.block(i * shape.rows, 0, shape);
  };

  const auto multiply = [&](double factor) {
    engine.map(x, Scaled<V>{value(factor)}, MatrixView<const V>{x});
  };
  double norm = norm_on_grid(grid, x);
  if constexpr (std::same_as<V, double>)
    if (is_infinite(norm))  // squares may exceed the range of double where elements do not
    {
      multiply(0x1p-600);
      norm = norm_on_grid(grid, x);
    }
  multiply(1 / larger(norm, options.epsilon));

  Matrix gathered{grid, r > 1 ? Shape{r * x.rows(), x.cols()} : Shape{}};
  Matrix a{grid, {n, n}};
  Matrix parts{grid, c > 1 ? Shape{v, n} : Shape{}};
  Matrix b{grid, {v, n}};
  Matrix b_rows{grid, c > 1 ? Shape{v / c, n} : Shape{}};
  Matrix next{grid, x.shape()};
  const auto& [ca, cb, cc] = options.coefficients;
  MatrixView<V> now = x;
  MatrixView<V> then = next.view();
  for (int step = 0; step < options.steps; ++step)
  {
    if (r > 1) along_rows.all_gather(now.elements(), gathered.view().elements());
    const auto block_of_x = [&](std::size_t i) -> MatrixView<const V> {
      return r > 1 ? piece(gathered.view(), i, x.shape()) : now;
    };
    const MatrixView<V> mine = a.view().block(row * v, 0, {v, n});
    const MatrixView<V> terms = c > 1 ? parts.view() : mine;
    for (std::size_t i = 0; i < r; ++i)
    {
      const MatrixView<V> out = terms.block(0, i * v, {v, v});
      if (is_transposed)
        engine.gemm(Op::transpose, Op::none, value(1), MatrixView<const V>{now}, block_of_x(i),
                    value(0), out);
      else
        engine.gemm(Op::none, Op::transpose, value(1), MatrixView<const V>{now}, block_of_x(i),
                    value(0), out);
    }
    const Shape slice{v / c, n};
    const MatrixView<V> my_slice = mine.block(col * slice.rows, 0, slice);
    if (c > 1)
    {
      along_cols.reduce_scatter(terms.elements(), my_slice.elements());
      along_cols.all_gather(my_slice.elements(), mine.elements());
    }
    if (r > 1) along_rows.all_gather(mine.elements(), a.view().elements());

    const MatrixView<V> my_b = c > 1 ? b_rows.view() : b.view();
    engine.copy(MatrixView<const V>{my_slice}, my_b);
    engine.gemm(Op::none, Op::none, value(cc), MatrixView<const V>{my_slice},
                MatrixView<const V>{a.view()}, value(cb), my_b);
    if (c > 1) along_cols.all_gather(my_b.elements(), b.view().elements());

    const double factor = step + 1 == options.steps ? scale : 1;
    engine.copy(MatrixView<const V>{now}, then);
    for (std::size_t i = 0; i < r; ++i)
    {
      const MatrixView<const V> b_of = b.view().block(0, i * v, {v, v});
      const V beta = value(i == 0 ? factor * ca : 1);
      if (is_transposed)
        engine.gemm(Op::none, Op::transpose, value(factor), block_of_x(i), b_of, beta, then);
      else
        engine.gemm(Op::none, Op::none, value(factor), b_of, block_of_x(i), beta, then);
    }
    std::swap(now, then);
  }
  if (now.data() != x.data()) engine.copy(MatrixView<const V>{now}, x);
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
