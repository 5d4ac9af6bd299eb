// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The norm of each row by its root mean square: Y = X / sqrt(mean of X^2 + epsilon) w
// (row_norm.hpp).
//
//   X, Y (M, d) S::Input    w (1, d) cut as X's columns, at first 1
//
// Words: 1 number a row in forward and in backward, and the sum of dw (row_norm.hpp).
// Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467.

#include "cubist/nn/layers/row_norm.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws ShapeError for rows of other features, ArgumentError for an epsilon out of range
template <SchemeType S, class B, RealScalar T>
class RmsNorm : public detail::RowNorm<S, B, T, false>
{
 public:
  /// The type of the mesh.
  using typename detail::RowNorm<S, B, T, false>::Mesh;

  /// A norm of rows of `features` elements.
  RmsNorm(const Mesh& mesh, std::size_t features, const NormOptions& options = {.epsilon = 1e-6})
      : detail::RowNorm<S, B, T, false>{mesh, features, options}
  {
  }
};

}  // namespace cubist::CUBIST_ABI
