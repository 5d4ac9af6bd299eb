// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Orthogonalizes a matrix by Newton-Schulz on a grid of ranks: its singular values become about 1.
//
//   X (n, k) rows [row] cols [col]    A, B (n, n) rows [row] cols []    (scheme/gram_grid.hpp)
//
//   X <- X / max(|X|, epsilon)
//   in each step: A = X X^T, B = b A + c A^2, X <- a X + B X
//
// The first two products multiply a matrix by its transpose, at half the usual cost (DistGram). No
// rank computes what another one computes. A single rank sends nothing.
//
// Elements sent: GramGrid::elements_of_iteration for each step, and an all_reduce of one number.
// Source: Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024.

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <utility>

#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/syrk.hpp"
#include "cubist/matmul/dist_gram.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/nn/norm/norm_functions.hpp"
#include "cubist/scheme/gram_grid.hpp"

namespace cubist::CUBIST_ABI
{

/// Options of the Newton-Schulz iteration.
struct NewtonSchulzOptions
{
  int steps = 5;                                                ///< the number of iterations
  std::array<double, 3> coefficients{3.4445, -4.7750, 2.0315};  ///< a, b and c
  double epsilon = 1e-7;  ///< the smallest number that the matrix is divided by
};

namespace detail
{

/// A plan for matrices of one size, which owns its workspace. Every rank of the grid makes it.
template <RealScalar V, class B>
class NewtonSchulz
{
 public:
  using Grid = AxisMesh<GramGrid::Axes, B>;

  /// @pre n <= k
  NewtonSchulz(const Grid& grid, std::size_t n, std::size_t k)
      : gram_{grid, n, k},
        square_{grid, n, n},
        times_{grid, {.m = n, .n = k, .k = n}},
        x_{grid, {n, k}},
        next_{x_},
        a_{grid, {n, n}},
        b_{a_}
  {
  }

  /// Replaces a matrix by `scale` times its orthogonal factor. Every rank of the grid calls it.
  /// @param block  this rank's block of X, or of X^T
  /// @param is_transposed  whether it is a block of X^T
  void orthogonalize(MatrixView<V> block, bool is_transposed, const NewtonSchulzOptions& options,
                     double scale)
  {
    const auto& engine = x_.mesh().engine();
    const auto copy = [&](MatrixView<const V> from, MatrixView<V> to) {
      if (is_transposed)
        transpose(engine, from, to);
      else
        engine.copy(from, to);
    };
    copy(block, x_.valid());
    normalize(options.epsilon);
    const auto& [a, b, c] = options.coefficients;
    for (int step = 0; step < options.steps; ++step)
    {
      const double factor = step + 1 == options.steps ? scale : 1;
      gram_.forward(x_, a_);
      square_.forward(a_, a_, b_, static_cast<V>(c), static_cast<V>(b));
      engine.copy(std::as_const(x_).padded(), next_.padded());
      times_.forward(b_, x_, next_, static_cast<V>(factor), static_cast<V>(factor * a));
      std::swap(x_, next_);
    }
    copy(std::as_const(x_).valid(), block);
  }

 private:
  void normalize(double epsilon)
  {
    double norm = this->norm();
    if constexpr (std::same_as<V, double>)
      if (is_infinite(norm))  // squares may exceed the range of double though no element does
      {
        multiply(0x1p-600);
        norm = this->norm();
      }
    multiply(1 / larger(norm, epsilon));
  }
  void multiply(double factor)
  {
    x_.mesh().engine().map(x_.valid(), Scaled<V>{static_cast<V>(factor)},
                           std::as_const(x_).valid());
  }
  [[nodiscard]] double norm()
  {
    const Grid& grid = x_.mesh();
    const double mine = grid.engine().fold(0.0, Sum{}, SquareOf{}, std::as_const(x_).valid());
    return std::sqrt(grid.size() > 1 ? all_reduced(grid, mine) : mine);
  }

  using Matrix = DistMatrix<V, GramGrid::Weight, Grid>;
  using Square = DistMatrix<V, GramGrid::Input, Grid>;

  DistGram<V, GramGrid::Weight, Grid> gram_;
  DistGram<V, GramGrid::Input, Grid> square_;
  DistMatMul<GramGrid, B, V> times_;
  Matrix x_, next_;
  Square a_, b_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
