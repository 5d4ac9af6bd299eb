// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Several linear layers with the same input, Y_i = X W_i + b_i, computed as one product on any
// scheme. X is gathered once for all of them, and the sum for dX is formed once.
//
//   X (M, K) S::Input    W_i (K, N_i) S::Weight    b_i (1, N_i) cut as Y's columns
//   Y (M, N) S::Output   the columns of all Y_i, interleaved so that each rank has its part of each
//
// N_i is cut into F pieces, the fewest that both W's and Y's column cuts divide evenly. Piece f
// of Y is [piece f of Y_0 | piece f of Y_1 | …]. `Kept` holds W = [W_0 | W_1 | …], b and the
// gradients, interleaved in the same way:
//
//   forward    copy the W_i into W;  Y = X W + b. In a layer without gradients, where each rank
//              has one piece of W, the W_i are columns of W, and nothing is copied
//   backward   dX = dY W^T;  dW = X^T dY;  db = sums of dY's columns;  copy the parts of dW
//              and db out, and sum each over its replicas
//
// Each W_i may have LoRA's thin matrices beside it: Y_i += s (X A_i) B_i (nn/dense/lora.hpp).
//
// Each rank sends what one Linear with N = N_0 + N_1 + … sends, where each N_i is padded to a
// multiple of its quantum.
// Source of merged weights: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/engine/span.hpp"
#include "cubist/engine/stored_weight.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matmul/dist_matmul.hpp"
#include "cubist/matmul/stored_product.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/nn/dense/linear.hpp"
#include "cubist/nn/dense/lora_layer.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

/// One of the layers that are merged.
struct MergedOutput
{
  std::string name;          // "query" for the parameters query.weight and query.bias
  std::size_t features = 0;  ///< columns of this output
  /// The columns are padded to a multiple of this; 0 stands for the mesh's quantum.
  std::size_t quantum = 0;
};

/// @throws ShapeError, MeshError from any call whose matrices do not fit
template <SchemeType S, class B, Scalar T>
class MergedLinear : public LayerWithLora<T, AxisMesh<typename S::Axes, B>>
{
 public:
  /// The product X W and its gradients.
  using Product = DistMatMul<S, B, T>;
  using Mesh = typename Product::Mesh;
  using Input = typename Product::Input;
  using Weight = typename Product::Weight;
  using Output = typename Product::Output;
  /// A bias (1, N_i), cut as Y's columns.
  using Bias = DistMatrix<T, RowVector<typename S::Output>, Mesh>;

  /// The number of pieces, F. If an output's quantum is `unit` times F, its pieces hold whole
  /// units, for example heads.
  [[nodiscard]] static std::size_t pieces(const Mesh& mesh)
  {
    using A = typename S::Axes;
    return std::lcm(S::Weight::template col_parts<A>(mesh.extents()),
                    S::Output::template col_parts<A>(mesh.extents()));
  }

  /// Draws for output i the initial values that a Linear with index options.index + i draws.
  /// @param storage  how a layer without gradients stores the W_i
  /// @throws ShapeError for a layer without inputs or outputs, ArgumentError for options out of
  /// range
  MergedLinear(const Mesh& mesh, std::size_t in, const std::vector<MergedOutput>& outputs,
               const LinearOptions& options = {}, const WeightStorage<S, B, T>& storage = {})
      : mesh_{mesh},
        options_{options},
        in_{in},
        pieces_{pieces(mesh)}
  {
    require<ShapeError>(in > 0 && !outputs.empty(), "got ", outputs.size(), " merged layers of ",
                        in, " features, so they would have no weights; give at least one of each");
    if (options_.in_quantum == 0) options_.in_quantum = mesh.quantum();
    for (std::size_t i = 0; i < outputs.size(); ++i) add_output(outputs[i]);
    const std::size_t n = pieces_ * group_;
    stored_ = detail::stored_weight(mesh, options_, storage, {in, n},
                                    {options_.in_quantum, mesh.quantum()});
    if (!stored_ && !options_.gradients && has_one_piece())
      w_.emplace(mesh, Shape{in, n}, Quanta{options_.in_quantum, mesh.quantum()});
    for (std::size_t i = 0; i < parts_.size(); ++i) initialize(i);
    b_.emplace(mesh, Shape{1, n}, Quanta{mesh.quantum(), mesh.quantum()}, WithoutElements{});
  }

  /// Returns where Y_i is in this rank's block of a matrix like Y.
  [[nodiscard]] MergedColumns columns(std::size_t i) const
  {
    const Range block = b_->block().cols;
    const auto& part = parts_[i];
    const std::size_t begin = std::min(block.offset / group_ * part.width, part.features);
    const std::size_t end =
        std::min((block.offset + block.size) / group_ * part.width, part.features);
    return {part.first, part.width, group_, block.size / group_, end - begin};
  }

  /// What `forward` leaves for `backward`. It also holds the interleaved weights, so that layers
  /// that run one at a time can share the memory.
  struct Kept
  {
    std::optional<Product> product;
    std::optional<Weight> w;   ///< the weights, interleaved
    std::optional<Bias> b;     ///< the biases, interleaved
    std::optional<Weight> dw;  ///< the gradients of the weights, interleaved
    std::optional<Bias> db;    ///< the gradients of the biases, interleaved
    std::optional<Output> y;
    std::optional<Output> dy;
    std::unique_ptr<detail::AnyKept> lora;  ///< what LoRA's matrices keep
    /// The workspace of the product if the weights are stored in fewer bits.
    std::unique_ptr<typename StoredProduct<T, Mesh>::Workspace> stored;
  };

  /// Returns Y, which is in `kept`. The next layer may change it in place.
  Output& forward(const Input& x, Kept& kept, const Pass& pass = {})
  {
    auto& product = kept.product;
    auto& y = kept.y;
    const std::size_t n = pieces_ * group_;
    const Weight* const w = stored_ ? nullptr : w_ ? &*w_ : &merged_weights(kept);
    if (!y || y->rows() != x.rows() || y->quanta().rows != x.quanta().rows)
    {
      const ProductSize size{.m = x.rows(), .n = n, .k = in_};
      if (w)
        product.emplace(mesh_, size, options_.gathered, options_.method,
                        ProductQuanta{.m = x.quanta().rows, .n = 0, .k = options_.in_quantum});
      y.emplace(mesh_, Shape{x.rows(), n}, Quanta{x.quanta().rows, mesh_.quantum()});
      kept.dy.reset();
    }
    if (options_.bias) copy_parts(&Part::b, fit_bias(kept.b), false);
    const auto epilogue = [&] { return detail::Epilogue<T>{std::as_const(*kept.b).valid()}; };
    if (stored_)
    {
      stored_->forward(x.view(), y->view(), kept.stored);
      if (options_.bias) detail::apply(mesh_.engine(), epilogue(), y->valid());
    }
    else if (options_.bias)
      product->forward(x, *w, *y, epilogue());
    else
      product->forward(x, *w, *y);
    if (this->pairs_) this->pairs_->forward(x.view(), pass, kept.lora, y->padded());
    return *y;
  }

  /// Returns dY, which is in `kept`, for the caller to write: the columns of every `columns(i)`.
  /// All others are 0 and must stay 0.
  /// @pre `forward` has filled `kept`
  [[nodiscard]] Output& output_gradient(Kept& kept) const
  {
    if (!kept.dy) kept.dy.emplace(mesh_, kept.y->shape(), kept.y->quanta());
    return *kept.dy;
  }

  /// Computes the gradients from `output_gradient(kept)`, passes them to `gradients`, and computes
  /// dX unless it is null.
  /// @pre X is the same as in the `forward` that filled `kept`
  void backward(const Input& x, GradientReducer<T, Mesh>& gradients, Kept& kept,
                Input* dx = nullptr, const Pass& pass = {})
  {
    using Pending = typename PendingAxes<typename Bias::Layout, typename S::Output::RowAxes>::type;
    for (const auto& part : parts_)
      if (!part.weight_is_frozen) detail::require_gradient(part.dw);
    const Output& dy = output_gradient(kept);
    const Weight& w = *kept.w;
    const auto all_have = [&](bool Part::*frozen) {
      return std::ranges::all_of(parts_, std::mem_fn(frozen));
    };
    if (options_.bias && !all_have(&Part::bias_is_frozen))
    {
      Bias& db = fit_bias(kept.db);
      mesh_.engine().column_sums(dy.valid(), db.valid());
      copy_parts(&Part::db, db, true);
      for (auto& part : parts_)
        if (!part.bias_is_frozen) gradients.sum(mesh_, Pending{}, part.db.padded());
    }
    if (!all_have(&Part::weight_is_frozen))
    {
      Weight& dw = fit_like(kept.dw, w);
      auto* const replicas = dx ? kept.product->backward_parts(x, w, dy, *dx, dw)
                                : kept.product->backward_parts(x, dy, dw);
      copy_parts(&Part::dw, dw, true);
      for (auto& part : parts_)
        if (!part.weight_is_frozen) gradients.reduce(part.dw.padded(), replicas);
    }
    else if (dx)
      kept.product->backward_input(w, dy, *dx);
    if (!this->pairs_) return;
    const MatrixView<T> to = dx ? dx->padded() : MatrixView<T>{};
    this->pairs_->backward(x.view(), dy.padded(), pass, gradients, kept.lora, dx ? &to : nullptr);
  }

  /// Appends the parameters of all outputs, with names that begin with `prefix`.
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    for (std::size_t i = 0; i < parts_.size(); ++i)
    {
      auto& part = parts_[i];
      list.push_back(freezable_parameter(prefix + part.name + ".weight", part.w, part.dw,
                                         part.weight_is_frozen));
      list.back().value = weight_of(part);
      list.back().lora = this;
      list.back().lora_weight = i;
      if constexpr (RealScalar<T>)
        if (stored_)
        {
          part.stored = {part.w.shape(), stored_->stored().type,
                         [this, &part](const auto& source) { set_stored(part, source); }};
          list.back().stored = &part.stored;
          list.back().value.shape = {};
          list.back().value.padded = {};
        }
      if (options_.bias)
        list.push_back(freezable_parameter(prefix + part.name + ".bias", part.b, part.db,
                                           part.bias_is_frozen));
    }
    if (this->pairs_) this->pairs_->append_parameters(list, prefix);
  }

  [[nodiscard]] detail::LoraSite<T, Mesh> lora_site(std::size_t i) override
  {
    Part& part = parts_[i];
    return {detail::lora_layout<Mesh, typename S::Input, typename S::Output>(),
            options_.seed,
            parts_.size(),
            part.name,
            options_.index + i,
            part.w.shape(),
            weight_of(part),
            stored_ ? stored_->stored().type : StoredWeights::scalar,
            columns(i),
            options_.gradients};
  }

 private:
  struct Part
  {
    std::string name;
    std::size_t features;
    std::size_t width;  // the width of a piece
    std::size_t first;  // its first column in a piece of all outputs
    Weight w;
    Weight dw;
    Bias b;
    Bias db;
    bool weight_is_frozen = false;
    bool bias_is_frozen = false;
    StoredValue<T> stored = {};  // W, if it is stored in fewer bits
  };

  void add_output(const MergedOutput& output)
  {
    require<ShapeError>(output.features > 0, "got no features for ", output.name,
                        ", which then has no weights; give it at least one");
    const std::size_t quantum = output.quantum == 0 ? mesh_.quantum() : output.quantum;
    // Its elements are allocated once all outputs are known.
    const Weight w{
        mesh_, {in_, output.features}, {options_.in_quantum, quantum}, WithoutElements{}};
    const Bias b{mesh_, {1, output.features}, {mesh_.quantum(), quantum}};
    const std::size_t width =
        pieces_ == 1 ? output.features : pad(output.features, std::lcm(quantum, pieces_)) / pieces_;
    parts_.emplace_back(Part{output.name, output.features, width, group_, w,
                             gradient_like(w, options_.gradients), b,
                             gradient_like(b, options_.gradients)});
    group_ += width;
  }
  /// Makes the weight of output i, and draws it and its bias.
  void initialize(std::size_t i)
  {
    Part& part = parts_[i];
    const auto draw = [&](Draw what) { return stream(options_.seed, what, options_.index + i); };
    if (options_.bias) detail::initialize(part.b, options_.initial_bias, draw(Draw::bias), in_);
    if constexpr (RealScalar<T>)
      if (stored_)
        return set_stored(part, detail::initial_blocks<T>(mesh_.engine(), part.features,
                                                          options_.initial_weights,
                                                          draw(Draw::weight), in_));
    Weight drawn{mesh_, part.w.shape(), part.w.quanta()};
    detail::initialize(drawn, options_.initial_weights, draw(Draw::weight), in_);
    if (w_)
      mesh_.engine().copy(std::as_const(drawn).padded(), weight_of(part).padded);
    else
      part.w = std::move(drawn);
  }
  /// Sets the columns of the stored W that belong to one output.
  void set_stored(const Part& part, const BlockSource<T>& source)
  {
    for_each_piece(part, stored_->columns(), {0, part.features, part.features},
                   [&](std::size_t at, std::size_t first, std::size_t count) {
                     stored_->set(at, first, count, source);
                   });
  }

  /// Whether the block of W on each rank is one piece that contains a whole block of each W_i.
  [[nodiscard]] bool has_one_piece() const
  {
    return S::Weight::template col_parts<typename S::Axes>(mesh_.extents()) == pieces_ &&
           std::ranges::all_of(
               parts_, [](const Part& part) { return part.w.block().padded().cols == part.width; });
  }
  /// W_i, which is a part of W or has its own memory.
  [[nodiscard]] DistView<T, Mesh> weight_of(Part& part)
  {
    auto view = part.w.view();
    if (w_) view.padded = w_->padded().block(0, part.first, part.w.block().padded());
    return view;
  }
  [[nodiscard]] const Weight& merged_weights(Kept& kept)
  {
    Weight& w = fit(kept.w, mesh_, {in_, pieces_ * group_}, {options_.in_quantum, mesh_.quantum()});
    copy_parts(&Part::w, w, false);
    return w;
  }

  [[nodiscard]] Bias& fit_bias(std::optional<Bias>& kept) const
  {
    return fit(kept, mesh_, b_->shape(), b_->quanta());
  }
  /// Calls f(first column in the block of all outputs, first column in the part's block, number of
  /// columns) for each piece of a part on this rank.
  /// @param all, cols  the columns of both blocks
  template <class F>
  void for_each_piece(const Part& part, Range all, Range cols, F f) const
  {
    for (std::size_t at = 0; at < all.size; at += group_)
    {
      const std::size_t begin = (all.offset + at) / group_ * part.width;
      const std::size_t end = std::min(begin + part.width, cols.offset + cols.valid);
      if (begin >= end) break;
      f(at + part.first, begin - cols.offset, end - begin);
    }
  }

  /// Copies each part's matrix `of` into `merged`, or, with `apart`, from `merged` into the parts.
  template <class Matrix>
  void copy_parts(Matrix Part::*of, Matrix& merged, bool apart)
  {
    const Span span{mesh_.engine(), {"weights", apart ? "taken apart" : "merged"}};
    const Block all = merged.block();
    for (auto& part : parts_)
    {
      Matrix& mine = part.*of;
      if (mine.shape().size() == 0) continue;  // the gradient of a frozen parameter
      const Range cols = mine.block().cols;
      for_each_piece(part, all.cols, cols, [&](std::size_t at, std::size_t begin, std::size_t n) {
        const Shape shape{mine.block().rows.valid, n};
        const auto here = merged.valid().block(0, at, shape);
        const auto there = mine.valid().block(0, begin, shape);
        if (apart)
          mesh_.engine().copy(MatrixView<const T>{here}, there);
        else
          mesh_.engine().copy(MatrixView<const T>{there}, here);
      });
    }
  }

  Mesh mesh_;
  LinearOptions options_;
  std::size_t in_;
  std::size_t pieces_;
  std::size_t group_ = 0;  // the columns of one piece of all outputs
  std::vector<Part> parts_;
  std::optional<Weight> w_;  // all of them, interleaved, if the parts have no elements
  std::shared_ptr<StoredProduct<T, Mesh>> stored_;  // the same, stored in fewer bits
  std::optional<Bias> b_;                           // all of them, interleaved, without elements
};

}  // namespace cubist::CUBIST_ABI
