// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// LayerNorm and RmsNorm. LayerNorm centres each row of X. Both scale each row, and then weight the
// columns.
//
//   X, Y (M, d) S::Input    w, b (1, d) cut like X's columns, initially 1 and 0
//
//   xhat = (X - mean) rstd    Y = xhat w + b    rstd = 1 / sqrt(mean of squares + epsilon)
//
//   G = dY w    dX = rstd (G - mean(G) - xhat mean(G xhat))
//   dw = column sums of dY xhat    db = column sums of dY
//
// If rows are not centred, mean and mean(G) are 0, and there is no b. Sums over a row are computed
// in double. The mean is summed over all ranks before the differences from it are squared, because
// mean(X^2) - mean(X)^2 would lose the variance of a row whose mean is much larger.
//
// A NaN or an infinity makes its whole row NaN, and so do elements whose squares exceed the range
// of double.
//
// Where replicas of X share memory, each computes a part of the rows, and a part of the columns of
// dw and db (nn/replica_split.hpp).
//
// If a rank has whole rows, an engine that passes over rows (PassesRows) needs one kernel in
// forward, and one for dX in backward.
//
// Elements that one rank sends: forward and backward each send 2(p-1)/p times 2 doubles per row, or
// 1 if rows are not centred, with p ranks along the axes that cut columns. Forward sends a message
// for each double, backward one for both. dw and db add 2(p-1)/p d' each, with p ranks along the
// axes that cut rows, and d' columns on a rank.
// Source: Ba, Kiros, Hinton, "Layer Normalization", arXiv 1607.06450; Zhang, Sennrich, "Root Mean
// Square Layer Normalization", arXiv 1910.07467.

#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/norm/norm_functions.hpp"
#include "cubist/nn/replica_split.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// The options of a norm: what is added to the variance, and whether it is trained.
struct NormOptions
{
  double epsilon = 1e-5;
  bool gradients = true;  ///< whether there is memory for gradients, and so a backward pass
};

namespace detail
{

/// The layer that LayerNorm and RmsNorm share.
/// @tparam centred whether it is LayerNorm
template <SchemeType S, class B, RealScalar T, bool centred>
class RowNorm
{
  using L = typename S::Input;
  using A = Accumulator<T>;
  using Engine = typename B::Engine;
  using Buffer = typename Engine::template Buffer<double>;

 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Input = DistMatrix<T, L, Mesh>;
  using Output = Input;
  using Weight = DistMatrix<T, RowVector<L>, Mesh>;

  /// Makes a norm for rows of `features` elements.
  /// @throws ShapeError if there are no features, ArgumentError for an epsilon out of range
  RowNorm(const Mesh& mesh, std::size_t features,
          const NormOptions& options = {.epsilon = centred ? 1e-5 : 1e-6})
      : mesh_{mesh},
        options_{options},
        w_{mesh, {1, features}},
        dw_{gradient_like(w_, options.gradients)},
        b_{w_},
        db_{gradient_like(w_, options.gradients)}
  {
    require<ShapeError>(features > 0, "got a norm of rows without features, so they have no "
                                      "mean; give it at least one");
    require<ArgumentError>(options.epsilon >= 0 && is_finite(options.epsilon), "got an epsilon of ",
                           options.epsilon,
                           ", so normalizing a row could give NaN; use a small positive number");
    mesh.engine().fill(w_.valid(), T{1});
  }

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::size_t rows = 0;           // the number of rows that this rank computes
    bool is_shared = false;         // whether replicas compute the other rows
    Buffer statistics = Buffer(0);  // 1 / sqrt(variance + epsilon) of each row, and its mean
    Buffer sums = Buffer(0);
    std::optional<Output> y;
    std::optional<Input> dx;
    std::shared_ptr<T> column_sums;  // dw and db, if work is shared
  };

  /// Returns Y, which is in `kept`.
  const Output& forward(const Input& x, const Pass&, Kept& kept) const
  {
    const auto& engine = mesh_.engine();
    const Span span{engine, {"norm", "forward"}};
    check(x, "X");
    ReplicaSplit shared{x};
    Output& y = shared.fit(kept.y, x);
    shared.begin();
    const auto in = shared.mine(x.valid());
    const std::size_t rows = in.rows();
    if (kept.statistics.size() < 2 * rows) kept.statistics = Buffer(2 * rows);
    kept.rows = rows;
    kept.is_shared = shared.is_shared();
    const MatrixView<double> rstd = statistic(kept, 0), mean = statistic(kept, 1);
    const MatrixView<T> out = shared.mine(y.valid());
    if constexpr (PassesRows<Engine>)
      if (has_whole_rows())
      {
        engine.for_each_row(in.shape(), NormForward<T, A, centred>{
                                            in, repeated(w_, kept), repeated(b_, kept), out,
                                            rstd.data(), mean.data(), columns(), options_.epsilon});
        shared.complete();
        return y;
      }
    compute_statistics(in, kept);
    const Normalize<A> normalize{rstd.data(), mean.data()};
    if constexpr (centred)
      engine.map_rows(out, normalize, in, repeated(w_, kept), repeated(b_, kept));
    else
      engine.map_rows(out, normalize, in, repeated(w_, kept));
    shared.complete();
    return y;
  }

  /// Returns dX, which is in `kept`, or null if it is not wanted.
  const Input* backward(const Input& x, const Output& dy, const BackwardPass<T, Mesh>& pass,
                        Kept& kept, bool wants_dx)
  {
    check(dy, "dY");
    if (!weight_is_frozen_) require_gradient(dw_);
    const auto& engine = mesh_.engine();
    const Span span{engine, {"norm", "backward"}};
    ReplicaSplit shared{x, kept.is_shared};
    Input& dx = fit_gradients(shared, x, kept);
    shared.begin();
    const MatrixView<const T> in = shared.mine(x.valid()), slopes = shared.mine(dy.valid());
    if constexpr (PassesRows<Engine>)
      if (has_whole_rows() && !kept.is_shared)
      {
        pass_over_rows(in, slopes, dx.valid(), pass, kept, wants_dx);
        return wants_dx ? &dx : nullptr;
      }
    // dX holds dY xhat until its columns and rows are summed.
    const MatrixView<T> product = shared.mine(dx.valid());
    engine.map_rows(product, times_normalized(kept), slopes, in);
    shared.complete();
    compute_weight_gradients(shared, dx, dy, kept);
    sum_gradients(pass);
    if (!wants_dx) return nullptr;
    write_input_gradient(in, slopes, product, kept);
    shared.complete();
    return &dx;
  }

  /// Whether weight and bias are frozen.
  [[nodiscard]] bool is_frozen() const { return weight_is_frozen_ && bias_is_frozen_; }

  /// Appends the weight and, for LayerNorm, the bias, each (1, d).
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    list.push_back(freezable_parameter(prefix + "weight", w_, dw_, weight_is_frozen_));
    if (centred) list.push_back(freezable_parameter(prefix + "bias", b_, db_, bias_is_frozen_));
  }

 private:
  void check(const Input& m, const char* what) const
  {
    require<ShapeError>(m.cols() == w_.cols() && m.mesh() == mesh_, "got ", what, " of ", m.shape(),
                        ", but the norm has weights for ", w_.cols(),
                        " columns on its own mesh; give it that many columns, on that mesh");
  }

  /// Computes the mean of each row and 1 / sqrt(variance + epsilon) from sums over all columns.
  void compute_statistics(MatrixView<const T> in, Kept& kept) const
  {
    const auto& engine = mesh_.engine();
    const MatrixView<double> rstd = statistic(kept, 0), mean = statistic(kept, 1);
    if constexpr (centred)
    {
      sum_rows<1>(kept, [&](auto sum) { engine.row_fold(sum, 0.0, Sum{}, DoubleOf{}, in); });
      engine.map(mean, MeanOf{columns()}, sums(kept, 0));
      sum_rows<1>(kept, [&](auto sum) {
        engine.row_fold(sum, 0.0, Sum{}, CentredSquareOf{mean.data()}, in);
      });
    }
    else
    {
      engine.fill(mean, 0.0);
      sum_rows<1>(kept, [&](auto sum) { engine.row_fold(sum, 0.0, Sum{}, SquareOf{}, in); });
    }
    engine.map(rstd, ReciprocalRootOf<A>{columns(), options_.epsilon}, sums(kept, 0), mean);
  }

  /// Computes the whole backward pass on an engine that passes over rows, for rows that this rank
  /// computes alone.
  void pass_over_rows(MatrixView<const T> in, MatrixView<const T> slopes, MatrixView<T> dx,
                      const BackwardPass<T, Mesh>& pass, Kept& kept,
                      bool wants_dx) requires(PassesRows<Engine>)
  {
    const auto& engine = mesh_.engine();
    if (!weight_is_frozen_) engine.column_sums_of(times_normalized(kept), dw_.valid(), slopes, in);
    if (!bias_is_frozen_) engine.column_sums(slopes, db_.valid());
    sum_gradients(pass);
    if (!wants_dx) return;
    engine.for_each_row(in.shape(),
                        NormBackward<T, A, centred>{slopes, in, repeated(w_, kept), dx,
                                                    statistic(kept, 0).data(),
                                                    statistic(kept, 1).data(), columns()});
  }

  /// Computes dw and db of this rank's rows: the column sums of `product`, which is dY xhat, and of
  /// dY. If replicas share the work, each sums some columns over the rows of all.
  void compute_weight_gradients(ReplicaSplit<T, L, Mesh>& shared, const Input& product,
                                const Output& dy, Kept& kept)
  {
    const auto& engine = mesh_.engine();
    const MatrixView<T> dw = kept.is_shared ? column_sums(kept, 0) : dw_.valid();
    const MatrixView<T> db = kept.is_shared ? column_sums(kept, 1) : db_.valid();
    if (!weight_is_frozen_)
      engine.column_sums(shared.my_columns(product.valid()), shared.my_columns(dw));
    if (!bias_is_frozen_) engine.column_sums(shared.my_columns(dy.valid()), shared.my_columns(db));
    shared.complete();
    if (!kept.is_shared) return;
    if (!weight_is_frozen_) engine.copy(MatrixView<const T>{dw}, dw_.valid());
    if (!bias_is_frozen_) engine.copy(MatrixView<const T>{db}, db_.valid());
  }

  /// Replaces `product`, which is dY xhat, by dX, with the row sums of g xhat and of g = w dY.
  void write_input_gradient(MatrixView<const T> in, MatrixView<const T> slopes,
                            MatrixView<T> product, Kept& kept) const
  {
    const auto& engine = mesh_.engine();
    const auto fold_g_xhat = [&](auto sum) {
      engine.row_fold(sum, 0.0, Sum{}, Weighted{}, MatrixView<const T>{product},
                      repeated(w_, kept));
    };
    if constexpr (centred)
      sum_rows<2>(kept, [&](auto g_xhat, auto g) {
        fold_g_xhat(g_xhat);
        engine.row_fold(g, 0.0, Sum{}, Weighted{}, slopes, repeated(w_, kept));
      });
    else
      sum_rows<1>(kept, fold_g_xhat);
    // If rows are not centred, their means are 0, and so is mean(G).
    const double* sum_g = centred ? sums(kept, 1).data() : statistic(kept, 1).data();
    engine.map_rows(product,
                    NormSlope<A>{statistic(kept, 0).data(), statistic(kept, 1).data(),
                                 sums(kept, 0).data(), sum_g, columns()},
                    slopes, in, repeated(w_, kept));
  }

  /// Whether this rank has all columns of its rows.
  [[nodiscard]] bool has_whole_rows() const
  {
    return along_axes(mesh_, typename L::ColAxes{}).size() == 1;
  }
  /// Sums dw and db over the ranks that have other rows.
  void sum_gradients(const BackwardPass<T, Mesh>& pass)
  {
    using Pending = typename PendingAxes<RowVector<L>, typename L::RowAxes>::type;
    if (!weight_is_frozen_) pass.gradients.sum(mesh_, Pending{}, dw_.padded());
    if (!bias_is_frozen_) pass.gradients.sum(mesh_, Pending{}, db_.padded());
  }

  /// Returns dX, and allocates dw and db if work is shared. Statistics exist only for the rows that
  /// `forward` gave this rank, so `backward` must share out the same rows.
  Input& fit_gradients(ReplicaSplit<T, L, Mesh>& shared, const Input& x, Kept& kept) const
  {
    Input& dx = shared.fit(kept.dx, x);
    if (!kept.is_shared) return dx;
    if (!kept.column_sums) kept.column_sums = shared.memory(2 * w_.valid().cols());
    if (!shared.is_shared() || !kept.column_sums) throw std::bad_alloc{};
    return dx;
  }
  /// dw (0) or db (1) in memory that replicas share, before it is copied.
  [[nodiscard]] MatrixView<T> column_sums(const Kept& kept, std::size_t i) const
  {
    const std::size_t cols = w_.valid().cols();
    return {kept.column_sums.get() + i * cols, {1, cols}};
  }

  [[nodiscard]] double columns() const { return static_cast<double>(w_.cols()); }
  [[nodiscard]] static MatrixView<const T> repeated(const Weight& w, const Kept& kept)
  {
    return w.valid().repeated(kept.rows);
  }

  /// Returns the function that computes dY xhat from elements of dY and X.
  [[nodiscard]] static TimesNormalized<A> times_normalized(Kept& kept)
  {
    return {statistic(kept, 0).data(), statistic(kept, 1).data()};
  }
  /// rstd (0) or the mean (1) of each row.
  [[nodiscard]] static MatrixView<double> statistic(Kept& kept, std::size_t i)
  {
    return {kept.statistics.data() + i * kept.rows, {1, kept.rows}};
  }
  /// Returns the first or the second sum that `sum_rows` computed for each row.
  [[nodiscard]] static MatrixView<double> sums(Kept& kept, std::size_t i)
  {
    return {kept.sums.data() + i * kept.rows, {1, kept.rows}};
  }
  /// Sums one or two numbers per row. f(first) or f(first, second) sums them over this rank's
  /// columns; one message sums them over all columns.
  template <std::size_t numbers, class F>
  void sum_rows(Kept& kept, F f) const
  {
    constexpr std::size_t most = centred ? 2 : 1;
    const std::size_t rows = kept.rows;
    if (kept.sums.size() < most * rows) kept.sums = Buffer(most * rows);
    const auto column = [&](std::size_t i) {
      return MatrixView<double>{kept.sums.data() + i * rows, rows, 1, 1};
    };
    if constexpr (numbers == 1)
      f(column(0));
    else
      f(column(0), column(1));
    auto& ranks = along_axes(mesh_, typename L::ColAxes{});
    if (ranks.size() > 1)  // a call would take as long as a row of a few elements
      ranks.all_reduce(MatrixView<double>{kept.sums.data(), {1, numbers * rows}}.elements());
  }

  Mesh mesh_;
  NormOptions options_;
  Weight w_;
  Weight dw_;
  Weight b_;
  Weight db_;
  bool weight_is_frozen_ = false;
  bool bias_is_frozen_ = !centred;  // rows that are not centred have no bias
};

}  // namespace detail

/// Normalizes each row by its mean and variance: Y = (X - mean) / sqrt(variance + epsilon) w + b.
template <SchemeType S, class B, RealScalar T>
using LayerNorm = detail::RowNorm<S, B, T, true>;

/// Normalizes each row by its root mean square: Y = X / sqrt(mean of X^2 + epsilon) w.
template <SchemeType S, class B, RealScalar T>
using RmsNorm = detail::RowNorm<S, B, T, false>;

}  // namespace cubist::CUBIST_ABI
