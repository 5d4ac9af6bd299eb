// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The norm of each row: Y = (X - mean) / sqrt(variance + epsilon) w + b (row_norm.hpp).
//
//   X, Y (M, d) S::Input    w, b (1, d) cut as X's columns, at first 1 and 0
//
// Words: 2 numbers a row in forward and in backward, and the sums of dw and db (row_norm.hpp).
// Source: Ba, Kiros, Hinton, "Layer Normalization", arXiv 1607.06450.

#include "cubist/nn/layers/row_norm.hpp"

namespace cubist::CUBIST_ABI
{

/// @throws ShapeError for rows of other features, ArgumentError for an epsilon out of range
template <SchemeType S, class B, RealScalar T>
class LayerNorm : public detail::RowNorm<S, B, T, true>
{
 public:
  /// The type of the mesh.
  using typename detail::RowNorm<S, B, T, true>::Mesh;

  /// A norm of rows of `features` elements.
  LayerNorm(const Mesh& mesh, std::size_t features, const NormOptions& options = {})
      : detail::RowNorm<S, B, T, true>{mesh, features, options}
  {
  }
};

}  // namespace cubist::CUBIST_ABI
