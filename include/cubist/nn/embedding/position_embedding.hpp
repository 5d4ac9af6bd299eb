// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Adds learned positions: H(b S + s, :) += P(p0 + s, :), p0 being the position of the first token.
//
//   H (M, d) S::Input    P (n, d) cut like H's columns, replicated along the axes that cut rows
//
// A sequence has S tokens. A rank may hold only some of a sequence's rows, and in a different order
// (matrix/sequence_cut.hpp).
//
// Elements that one rank sends: forward none; backward 2(p-1)/p S d', p being the number of ranks
// along the axes that cut rows, and d' the number of a rank's columns, with padding.

#include <algorithm>
#include <cstddef>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/embedding/embedding.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// A layer that adds learned positions. Each call throws ArgumentError for a position that the
/// table does not have.
template <SchemeType S, class B, RealScalar T>
class PositionEmbedding
{
 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  /// The table (positions, width), cut like the columns of the input.
  using Table = DistMatrix<T, Layout<Rows<>, typename S::Input::ColAxes>, Mesh>;
  using Output = DistMatrix<T, typename S::Input, Mesh>;

  /// @throws ShapeError if there are no positions or no features
  PositionEmbedding(const Mesh& mesh, std::size_t positions, std::size_t features,
                    const EmbeddingOptions& options = {})
      : mesh_{mesh},
        p_{mesh, {positions, features}},
        dp_{gradient_like(p_, options.gradients)}
  {
    require<ShapeError>(positions > 0 && features > 0, "got ", positions, " positions of ",
                        features,
                        " features, so the table would be empty; give at least one of each");
    detail::initialize(p_, options.initial, stream(options.seed, Draw::weight, options.index),
                       features);
  }

  /// Adds the positions' vectors to H.
  void forward(Output& h, const Pass& pass) const
  {
    check(pass);
    for_each_run(h, pass, [&](std::size_t position, MatrixView<T> rows) {
      mesh_.engine().for_each(detail::Add{}, rows, p_.valid().block(position, 0, rows.shape()));
    });
  }

  /// Computes the gradient of the table. It is 0 for positions that no token has.
  void backward(const Output& dh, const BackwardPass<T, Mesh>& pass)
  {
    check(pass);
    if (is_frozen_) return;
    detail::require_gradient(dp_);
    mesh_.engine().fill(dp_.valid(), T{});
    for_each_run(dh, pass, [&](std::size_t position, MatrixView<const T> rows) {
      mesh_.engine().for_each(detail::Add{}, dp_.valid().block(position, 0, rows.shape()), rows);
    });
    using Pending = typename PendingAxes<typename Table::Layout, typename S::Input::RowAxes>::type;
    const MatrixView<T> all = dp_.padded();
    pass.gradients.sum(mesh_, Pending{}, all.block(pass.position, 0, {pass.sequence, all.cols()}));
  }

  /// Whether the table is frozen, and so has no gradient.
  [[nodiscard]] bool is_frozen() const { return is_frozen_; }

  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", p_, dp_, is_frozen_));
  }

 private:
  void check(const Pass& pass) const
  {
    require<ArgumentError>(pass.position + pass.sequence <= p_.rows(), "got tokens up to position ",
                           pass.position + pass.sequence, ", but the table has only ", p_.rows(),
                           " positions; use shorter sequences");
  }

  /// Calls f(position of the first row, rows) for each sequence, or part of one, on this rank.
  template <class H, class F>
  static void for_each_run(H& h, const Pass& pass, F f)
  {
    const auto all = h.valid();
    for (std::size_t i = 0, n = 0; i < all.rows(); i += n)
    {
      const std::size_t row = h.block().rows.offset + i;
      const SequenceCut& cut = pass.cut;
      const std::size_t token = cut.is_cut() ? cut.position(row) : row % pass.sequence;
      n = std::min(cut.is_cut() ? cut.chunk - row % cut.chunk : pass.sequence - token,
                   all.rows() - i);
      // Rows of padding have no position.
      if (token >= pass.sequence) continue;
      const std::size_t tokens = std::min(n, pass.sequence - token);
      f(pass.position + token, all.block(i, 0, {tokens, all.cols()}));
    }
  }

  Mesh mesh_;
  Table p_;
  Table dp_;
  bool is_frozen_ = false;
};

}  // namespace cubist::CUBIST_ABI
