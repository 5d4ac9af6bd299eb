// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What LayerNorm and RmsNorm share: each row of X is scaled, and centred first or not; then columns
// are weighted.
//
//   X, Y (M, d) S::Input    w, b (1, d) cut as X's columns
//
//   xhat = (X - mean) rstd    Y = xhat w + b    rstd = 1 / sqrt(mean of squares + epsilon)
//
//   G = dY w    dX = rstd (G - mean(G) - xhat mean(G xhat))    dw = sums of dY xhat    db = of dY
//
// where mean and mean(G) are 0, and there is no b, unless rows are centred. Sums over a row are
// computed in double. The mean is summed over all ranks before its differences are squared, as
// mean(X^2) - mean(X)^2 would lose the variance of a row whose mean is much larger.
//
// A NaN or an infinity makes its whole row NaN, and so do elements whose squares double cannot
// hold.
//
// Words: forward and backward 2(p-1)/p times 2 doubles a row, 1 if rows are not centred, p being
// the ranks along the axes that cut columns: one message in backward, and in forward one for each
// double; for dw and db each 2(p-1)/p d', p being the ranks along those that cut rows, and d' a
// rank's columns.

#include <cstddef>
#include <optional>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/dist/replica_sum.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/kernels/norm_functions.hpp"
#include "cubist/nn/kernels/row_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// What is added to the variance, and the weights.
struct NormOptions
{
  double epsilon = 1e-5;
};

namespace detail
{

/// @tparam centred whether it is LayerNorm
template <SchemeType S, class B, RealScalar T, bool centred>
class RowNorm
{
  using L = typename S::Input;
  using A = Accumulator<T>;

 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Input = DistMatrix<T, L, Mesh>;
  using Output = Input;
  using Weight = DistMatrix<T, RowVector<L>, Mesh>;

  RowNorm(const Mesh& mesh, std::size_t features, const NormOptions& options)
      : mesh_{mesh}, options_{options}, w_{mesh, {1, features}}, dw_{w_}, b_{w_}, db_{w_}
  {
    require<ShapeError>(features > 0, "got a norm of rows without features, which have no mean; "
                                      "give it at least one");
    require<ArgumentError>(options.epsilon >= 0 && is_finite(options.epsilon), "got an epsilon of ",
                           options.epsilon,
                           ", with which a row may have no norm; use a small positive number");
    mesh.engine().fill(w_.valid(), T{1});
  }

  const Output& forward(const Input& x, const Pass&)
  {
    const auto& engine = mesh_.engine();
    const auto in = x.valid();
    check(x, "X");
    const std::size_t rows = in.rows();
    if (statistics_.size() < 2 * rows) statistics_ = Buffer(2 * rows);
    rows_ = rows;
    const MatrixView<double> rstd = statistic(0), mean = statistic(1);
    if constexpr (centred)
    {
      sum_rows<1>([&](auto sum) { engine.row_fold(sum, 0.0, Sum{}, DoubleOf{}, in); });
      engine.map(mean, MeanOf{columns()}, sums(0));
      sum_rows<1>(
          [&](auto sum) { engine.row_fold(sum, 0.0, Sum{}, CentredSquareOf{mean.data()}, in); });
    }
    else
    {
      engine.fill(mean, 0.0);
      sum_rows<1>([&](auto sum) { engine.row_fold(sum, 0.0, Sum{}, SquareOf{}, in); });
    }
    engine.map(rstd, ReciprocalRootOf<A>{columns(), options_.epsilon}, sums(0), mean);
    Output& y = fit_like(y_, x);
    const Normalize<A> normalize{rstd.data(), mean.data()};
    if constexpr (centred)
      engine.map_rows(y.valid(), normalize, in, repeated(w_), repeated(b_));
    else
      engine.map_rows(y.valid(), normalize, in, repeated(w_));
    return y;
  }

  const Input* backward(const Input& x, const Output& dy, const Pass&, bool wants_dx)
  {
    finish_backward();  // an earlier one, which an error interrupted
    check(dy, "dY");
    const auto& engine = mesh_.engine();
    const MatrixView<const T> in = x.valid(), slopes = dy.valid();
    Input& dx = fit_like(dx_, x);
    const double* rstd = statistic(0).data();
    const double* mean = statistic(1).data();
    // dx has dY xhat until its columns and rows are summed.
    const MatrixView<T> product = dx.valid();
    engine.map_rows(product, TimesNormalized<A>{rstd, mean}, slopes, in);
    using Pending = typename PendingAxes<RowVector<L>, typename L::RowAxes>::type;
    engine.column_sums(MatrixView<const T>{product}, dw_.valid());
    dw_sum_ = sum_replicas(mesh_, Pending{}, dw_.padded());
    if constexpr (centred)
    {
      engine.column_sums(slopes, db_.valid());
      db_sum_ = sum_replicas(mesh_, Pending{}, db_.padded());
    }
    if (!wants_dx) return nullptr;
    const auto fold_g_xhat = [&](auto sum) {
      engine.row_fold(sum, 0.0, Sum{}, Weighted{}, MatrixView<const T>{product}, repeated(w_));
    };
    if constexpr (centred)
      sum_rows<2>([&](auto g_xhat, auto g) {
        fold_g_xhat(g_xhat);
        engine.row_fold(g, 0.0, Sum{}, Weighted{}, slopes, repeated(w_));
      });
    else
      sum_rows<1>(fold_g_xhat);
    if constexpr (!centred)
      if (zeros_.size() < rows_) zeros_ = Buffer(rows_);
    const double* sum_g = centred ? sums(1).data() : zeros_.data();
    engine.map_rows(dx.valid(), NormSlope<A>{rstd, mean, sums(0).data(), sum_g, columns()}, slopes,
                    in, repeated(w_));
    return &dx;
  }
  void finish_backward()
  {
    dw_sum_.wait();
    db_sum_.wait();
  }

  /// weight and, for LayerNorm, bias, (1, d)
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back({prefix + "weight", w_.view(), dw_.view()});
    if (centred) list.push_back({prefix + "bias", b_.view(), db_.view()});
  }

  void swap_activations(RowNorm& other)
  {
    std::swap(statistics_, other.statistics_), std::swap(sums_, other.sums_);
    std::swap(y_, other.y_), std::swap(dx_, other.dx_);
  }

 private:
  using Buffer = typename Mesh::Engine::template Buffer<double>;

  void check(const Input& m, const char* what) const
  {
    require<ShapeError>(m.cols() == w_.cols() && m.mesh() == mesh_, "got ", what, " of ", m.shape(),
                        " for a norm of ", w_.cols(),
                        " features, or on another mesh, so they have no weights; give it as many "
                        "columns, on the norm's mesh");
  }

  [[nodiscard]] double columns() const { return static_cast<double>(w_.cols()); }
  [[nodiscard]] static MatrixView<const T> repeated(const Weight& w, std::size_t rows)
  {
    return w.valid().repeated(rows);
  }
  [[nodiscard]] MatrixView<const T> repeated(const Weight& w) const { return repeated(w, rows_); }

  /// A number for each row: rstd or mean; or a sum of `sum_rows`.
  [[nodiscard]] MatrixView<double> statistic(std::size_t i)
  {
    return {statistics_.data() + i * rows_, {1, rows_}};
  }
  [[nodiscard]] MatrixView<double> sums(std::size_t i)
  {
    return {sums_.data() + i * rows_, {1, rows_}};
  }
  /// One or two numbers a row, which f(first) or f(first, second) sums over this rank's columns,
  /// summed over all columns in one message.
  template <std::size_t numbers, class F>
  void sum_rows(F f)
  {
    const std::size_t size = numbers * rows_;
    if (sums_.size() < (centred ? 2 : 1) * rows_) sums_ = Buffer((centred ? 2 : 1) * rows_);
    const auto column = [&](std::size_t i) {
      return MatrixView<double>{sums_.data() + i * rows_, rows_, 1, 1};
    };
    if constexpr (numbers == 1)
      f(column(0));
    else
      f(column(0), column(1));
    auto& ranks = along_axes(mesh_, typename L::ColAxes{});
    if (ranks.size() > 1)  // a row of a few elements takes as long as a call
      ranks.all_reduce(MatrixView<double>{sums_.data(), {1, size}}.elements());
  }

  Mesh mesh_;
  NormOptions options_;
  Weight w_;
  Weight dw_;
  Weight b_;
  Weight db_;
  std::size_t rows_ = 0;  // of this rank
  Buffer statistics_ = Buffer(0);
  Buffer sums_ = Buffer(0);
  Buffer zeros_ = Buffer(0);
  std::optional<Output> y_;
  std::optional<Input> dx_;
  ReplicaSum<typename B::Communicator> dw_sum_;
  ReplicaSum<typename B::Communicator> db_sum_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
