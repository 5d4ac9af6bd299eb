// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Normalizes each head of queries or keys by its root mean square, in place, with one weight for
// all heads: y = x / sqrt(mean of x^2 + epsilon) w for the dh elements x of a head in a row.
//
//   X, Y (M, H dh) S::Output, whole heads on a rank    w (1, dh) on every rank, initially 1
//
//   1. X is copied head by head, (H M, dh), for backward
//   2. y = xhat w, and backward dx = rstd (g - xhat mean(g xhat)) with g = dy w, xhat = x rstd
//   3. dw = sums of dy xhat over rows and heads
//
// Sums over a head are computed in double. A NaN or an infinity makes its head NaN in its row.
//
// Elements that one rank sends: forward none; backward 2(p-1)/p dh, p being the number of ranks
// along the axes that cut Y.
// Source: Zhang, Sennrich, "Root Mean Square Layer Normalization", arXiv 1910.07467; Dehghani et
// al., "Scaling Vision Transformers to 22 Billion Parameters", arXiv 2302.05442, section 2 (norms
// of queries and keys).

#include <cstddef>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/nn/attention/attention_shape.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/norm/norm_functions.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <SchemeType S, class B, RealScalar T>
class HeadNorm
{
  using A = Accumulator<T>;
  using Engine = typename B::Engine;
  template <class U>
  using Buffer = typename Engine::template Buffer<U>;

 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Weight = DistMatrix<T, Layout<Rows<>, Cols<>>, Mesh>;

  /// @throws ShapeError for heads without elements, ArgumentError for an epsilon out of range
  HeadNorm(const Mesh& mesh, std::size_t head_size, double epsilon = 1e-6, bool gradients = true)
      : mesh_{mesh},
        head_size_{head_size},
        epsilon_{epsilon},
        w_{mesh, {1, head_size}},
        dw_{gradient_like(w_, gradients)}
  {
    require<ShapeError>(head_size > 0, "got a norm of heads without elements, which have no "
                                       "mean; give them at least one");
    require<ArgumentError>(epsilon >= 0 && is_finite(epsilon), "got an epsilon of ", epsilon,
                           ", so normalizing a head could give NaN; use a small positive number");
    mesh.engine().fill(w_.valid(), T{1});
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    Buffer<T> x = Buffer<T>(0);                ///< the heads before the norm, stacked
    Buffer<T> product = Buffer<T>(0);          // dy xhat
    Buffer<double> rstd = Buffer<double>(0);   ///< 1 / root mean square of each head and row
    Buffer<double> sums = Buffer<double>(0);   ///< workspace: sums over a head
    Buffer<double> zeros = Buffer<double>(0);  ///< in place of the means, which are not subtracted
  };

  /// Replaces X by Y.
  /// @param x  this rank's rows, with `heads` heads at `columns`
  void forward(MatrixView<T> x, const HeadColumns& columns, std::size_t heads, Kept& kept) const
  {
    const auto& engine = mesh_.engine();
    const std::size_t rows = x.rows();
    const std::size_t n = heads * rows;
    for (auto* numbers : {&kept.rstd, &kept.sums, &kept.zeros}) detail::enlarge(*numbers, n);
    const MatrixView<T> all = matrix(kept.x, n);
    for (std::size_t h = 0; h < heads; ++h)
      engine.copy(MatrixView<const T>{head(x, columns, h)},
                  all.block(h * rows, 0, {rows, head_size_}));
    engine.row_fold(column(kept.sums, n), 0.0, detail::Sum{}, detail::SquareOf{},
                    MatrixView<const T>{all});
    engine.map(row(kept.rstd, n), detail::ReciprocalRootOf<A>{size(), epsilon_}, row(kept.sums, n),
               row(kept.zeros, n));
    for (std::size_t h = 0; h < heads; ++h)
      engine.map_rows(head(x, columns, h),
                      detail::Normalize<A>{kept.rstd.data() + h * rows, kept.zeros.data()},
                      MatrixView<const T>{all.block(h * rows, 0, {rows, head_size_})},
                      w_.valid().repeated(rows));
  }

  /// Replaces dY by dX, and computes the gradient of the weight.
  /// @pre the rows and heads are those of the `forward` that filled `kept`
  void backward(MatrixView<T> dy, const HeadColumns& columns, std::size_t heads,
                const BackwardPass<T, Mesh>& pass, Kept& kept)
  {
    if (!weight_is_frozen_) detail::require_gradient(dw_);
    const auto& engine = mesh_.engine();
    const std::size_t rows = dy.rows();
    const std::size_t n = heads * rows;
    const double* zeros = kept.zeros.data();
    const MatrixView<const T> x = matrix(kept.x, n);
    const MatrixView<T> product = matrix(kept.product, n);
    for (std::size_t h = 0; h < heads; ++h)
      engine.map_rows(product.block(h * rows, 0, {rows, head_size_}),
                      detail::TimesNormalized<A>{kept.rstd.data() + h * rows, zeros},
                      MatrixView<const T>{head(dy, columns, h)},
                      x.block(h * rows, 0, {rows, head_size_}));
    if (!weight_is_frozen_)
    {
      using L = typename S::Output;
      using OfRows = typename PendingAxes<typename Weight::Layout, typename L::RowAxes>::type;
      using Pending =
          typename PendingAxes<typename Weight::Layout, typename L::ColAxes, OfRows>::type;
      engine.column_sums(MatrixView<const T>{product}, dw_.valid());
      pass.gradients.sum(mesh_, Pending{}, dw_.padded());
    }
    engine.row_fold(column(kept.sums, n), 0.0, detail::Sum{}, detail::Weighted{},
                    MatrixView<const T>{product}, w_.valid().repeated(n));
    for (std::size_t h = 0; h < heads; ++h)
      engine.map_rows(head(dy, columns, h),
                      detail::NormSlope<A>{kept.rstd.data() + h * rows, zeros,
                                           kept.sums.data() + h * rows, zeros, size()},
                      MatrixView<const T>{head(dy, columns, h)},
                      x.block(h * rows, 0, {rows, head_size_}), w_.valid().repeated(rows));
  }

  /// Appends weight (1, dh).
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", w_, dw_, weight_is_frozen_));
  }

 private:
  [[nodiscard]] MatrixView<T> head(MatrixView<T> m, const HeadColumns& columns, std::size_t h) const
  {
    return m.block(0, columns(h, head_size_), {m.rows(), head_size_});
  }
  /// Returns a buffer as n rows of dh elements, and enlarges it if it is too small.
  [[nodiscard]] MatrixView<T> matrix(Buffer<T>& buffer, std::size_t n) const
  {
    return {detail::enlarge(buffer, n * head_size_), {n, head_size_}};
  }
  [[nodiscard]] static MatrixView<double> row(Buffer<double>& buffer, std::size_t n)
  {
    return {buffer.data(), {1, n}};
  }
  [[nodiscard]] static MatrixView<double> column(Buffer<double>& buffer, std::size_t n)
  {
    return {buffer.data(), n, 1, 1};
  }
  [[nodiscard]] double size() const { return static_cast<double>(head_size_); }

  Mesh mesh_;
  std::size_t head_size_;
  double epsilon_;
  Weight w_;
  Weight dw_;
  bool weight_is_frozen_ = false;
};

}  // namespace cubist::CUBIST_ABI
