// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// LoRA's thin matrices beside the weight of one linear layer, or of several with the same X, on any
// scheme: Y_i = X W_i + s (D X A) B_i, with dropout D while training.
//
//   X (M, K) S::Input    A (K, r) rows as X's columns    B_i (r, N_i) columns as Y's
//   P = D X A (M, r) rows as Y's                         Y (M, N) S::Output
//
// r is never cut, so it is not padded. A and B lie where X and Y need them, wherever W lies, so W
// is neither gathered nor read. In Megatron's first layer, for example, A is on every rank, and B
// is cut as W is; in its second layer it is the other way round.
//
// Only a program that calls add_lora(), or a network's constructor that takes LoraOptions, compiles
// this (nn/dense/lora_layer.hpp). The matrices learn the scheme at run time, from a LoraLayout, and
// are compiled once for a type of mesh.
//
//   forward    Compute a part of P from this rank's columns of X. If Y's rows are not cut as X's:
//              all_gather along the axis that cuts only X's rows, reduce_scatter along the axis
//              that cuts only Y's. all_reduce along the other axes that cut X's columns. Then
//              Y += s P B.
//   backward   Compute dP = s dY B^T, and move it from Y's rows to X's in the same way. Compute
//              dB = s P^T dY and dA = (D X)^T dP, which a reducer sums over replicas. Then
//              dX += D dP A^T.
//
// Elements that one rank sends:
//
//   forward   (g-1) m n + (f-1)/f (g m) n + 2 (c-1)/c (g m / f) n
//
// Here m is the number of X's rows on a rank, and n is r times the number of matrices A. There are
// g ranks along the axis that cuts only X's rows, f along the axis that cuts only Y's, and c along
// the other axes that cut X's columns.
//
// Backward sends the same with X and Y exchanged, and in addition the sums of dA and dB over
// replicas. plan/lora_cost.hpp has the formulas.
//
// Source: Hu et al., "LoRA", arXiv 2106.09685; PEFT, LoraLayer, for the initial values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/instances.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/random_stream.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/core/stored_weights.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/gradients/gradient_reducer.hpp"
#include "cubist/gradients/parameter.hpp"
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/mesh/mesh.hpp"
#include "cubist/mesh/stages.hpp"
#include "cubist/model/lora_options.hpp"
#include "cubist/nn/dense/lora_layer.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/parameter_names.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Writes a thin product, which is the sum of one part from each rank, to `whole`. Each rank has
/// all columns.
/// @param part  the shape of this rank's part
/// @param product product(out) computes this rank's part
template <RealScalar T, class M, class Product>
void thin_product(const M& mesh, const typename LoraLayout<M>::Move& move, Shape part,
                  MatrixView<T> whole, Product product)
{
  auto* const gathered = replicas_along(mesh, move.gathered);
  auto* const scattered = replicas_along(mesh, move.scattered);
  auto* const reduced = replicas_along(mesh, move.reduced);
  if (!gathered && !scattered)
    product(whole);
  else
  {
    // Rows that no axis cuts are not padded, so there may be fewer of them than of padded rows.
    const auto& engine = mesh.engine();
    const auto times = [](std::size_t rows, const auto* ranks) {
      return rows * (ranks ? static_cast<std::size_t>(ranks->size()) : 1);
    };
    const Shape in{times(part.rows, gathered), part.cols};
    const Shape out{times(whole.rows(), scattered), part.cols};
    BorrowedMatrix<T, M> all{mesh, {std::max(in.rows, out.rows), part.cols}};
    const MatrixView<T> rows = all.view();
    if (gathered)
    {
      BorrowedMatrix<T, M> mine{mesh, part};
      product(mine.view());
      gathered->all_gather(mine.view().elements(), rows.block(0, 0, in).elements());
    }
    else
      product(rows.block(0, 0, in));
    if (in.rows < out.rows) engine.fill(rows.block(in.rows, 0, {out.rows - in.rows, in.cols}), T{});
    const MatrixView<const T> summed = rows.block(0, 0, out);
    if (scattered)
      scattered->reduce_scatter(summed.elements(), whole.elements());
    else
      engine.copy(summed, whole);
  }
  if (reduced) reduced->all_reduce(whole.elements());
}

/// A matrix that no axis cuts: here, a block in this rank's memory.
template <Scalar T, class M>
using LocalMatrix = DistMatrix<T, Layout<Rows<>, Cols<>>, M>;

/// A or B of a layer, and its gradient.
template <Scalar T, class M>
struct LoraMatrix
{
  LoraMatrix(const M& mesh, Shape shape, Quanta quanta,
             const std::shared_ptr<const BlockMap<M>>& blocks, bool has_gradient)
      : place{mesh, require_countable(shape, sizeof(T)), quanta, {}, blocks},
        block{place.block(mesh.rank())},
        value{mesh, block.padded()},
        gradient{gradient_like(value, has_gradient)}
  {
  }

  [[nodiscard]] Parameter<T, M> parameter(std::string name)
  {
    return {std::move(name), place.with(value.padded()), place.with(gradient.padded())};
  }

  DistView<T, M> place;     ///< where the blocks are; it has no memory
  Block block;              ///< this rank's block
  LocalMatrix<T, M> value;  ///< the elements of that block
  LocalMatrix<T, M> gradient;
};

template <RealScalar T, class M>
class LoraMatrices final : public LoraPairs<T, M>
{
  using Matrix = LoraMatrix<T, M>;
  using Local = LocalMatrix<T, M>;
  using Buffer = typename M::Engine::template Buffer<T>;

 public:
  using typename LoraPairs<T, M>::Site;

  void add(LayerWithLora<T, M>& layer, std::size_t i, const LoraOptions& options) override
  {
    require_unmerged("add");
    require<ArgumentError>(
        b_.empty() || (options.rank == options_.rank && options.scale() == options_.scale()),
        "got LoRA of rank ", options.rank, " and scale ", options.scale(),
        ", but another output of this layer has rank ", options_.rank, " and scale ",
        options_.scale(),
        ", and one product computes both; remove the other first, or give both the same rank and scale");
    const std::size_t first = options.shared_input ? 0 : i;
    const Site site = layer.lora_site(first);
    options_ = options;
    seed_ = site.seed;
    layout_ = site.layout;
    if (find(first) != nullptr) return;
    const M& mesh = site.w.mesh;
    const Shape shape{site.shape.rows, options.rank};
    Matrix a{mesh, shape, {site.w.quanta.rows, mesh.quantum()}, layout_.a, site.has_gradients};
    initialize_block(mesh.engine(), a.value.padded().block(0, 0, a.block.valid()), a.block,
                     shape.cols, Uniform{}, stream(seed_, Draw::lora, site.index), shape.rows);
    std::string name;  // of all weights that share A
    for (std::size_t o = first; o < (options.shared_input ? site.weights : i + 1); ++o)
    {
      const Site weight = layer.lora_site(o);
      name += (o > first ? "_" : "") + weight.name;
      const Shape of_b{options.rank, weight.shape.cols};
      const Quanta quanta{mesh.quantum(), weight.w.quanta.cols};
      Matrix b{mesh, of_b, quanta, layout_.b, weight.has_gradients};
      b_.push_back({std::move(b), dotted(weight.name), o, a_.size(), weight.columns});
    }
    a_.push_back({std::move(a), dotted(name), site.index});
  }
  void remove(std::size_t i) override
  {
    require_unmerged("remove");
    const Thin* const found = find(i);
    if (found == nullptr) return;
    const std::size_t removed = found->root;
    std::erase_if(b_, [&](const Thin& branch) { return branch.root == removed; });
    for (Thin& branch : b_)
      if (branch.root > removed) --branch.root;
    a_.erase(a_.begin() + static_cast<std::ptrdiff_t>(removed));
  }

  [[nodiscard]] const LoraOptions* options(std::size_t i) const override
  {
    return std::ranges::find(b_, i, &Thin::index) != b_.end() ? &options_ : nullptr;
  }
  [[nodiscard]] bool is_on() const override { return !std::ranges::all_of(b_, &Thin::merged); }

  void merge(std::size_t i, const Site& site, bool keeps) override
  {
    require<ArgumentError>(
        site.stored == StoredWeights::scalar, "got merge_lora for weights that are stored as ",
        to_string(site.stored),
        ", so W + s A B would be rounded a second time; merge in a model that stores scalars, "
        "save that, and load it");
    const DistView<T, M>& w = site.w;
    Thin* const branch = find(i);
    if (branch == nullptr || std::exchange(branch->merged, true) || !w.mesh.active()) return;
    const auto& engine = w.mesh.engine();
    const auto block = w.block(w.mesh.rank());
    const MatrixView<T> mine = w.valid();
    branch->has_original = keeps;
    if (keeps)
    {
      branch->original = Buffer(mine.size());
      engine.copy(MatrixView<const T>{mine}, MatrixView<T>{branch->original.data(), mine.shape()});
    }
    const Buffer a = whole(a_[branch->root].matrix, layout_.x_cols);
    const Buffer b = whole(branch->matrix, layout_.y_cols);
    const MatrixView<const T> left{a.data(), {w.shape.rows, options_.rank}};
    const MatrixView<const T> right{b.data(), {options_.rank, w.shape.cols}};
    engine.gemm(Op::none, Op::none, scale(),
                left.block(block.rows.offset, 0, {block.rows.valid, options_.rank}),
                right.block(0, block.cols.offset, {options_.rank, block.cols.valid}), T{1}, mine);
  }
  void unmerge(std::size_t i, const DistView<T, M>& w) override
  {
    Thin* const branch = find(i);
    if (branch == nullptr || !branch->merged) return;
    require<ArgumentError>(
        branch->has_original || !w.mesh.active(),
        "got a weight to unmerge that was merged without its original, so subtracting s A B "
        "would not restore its bits; pass KeepWeights::yes to merge_lora, or load the weights");
    branch->merged = false;
    if (!w.mesh.active()) return;
    const MatrixView<T> mine = w.valid();
    w.mesh.engine().copy(MatrixView<const T>{branch->original.data(), mine.shape()}, mine);
    branch->original = Buffer(0);
    branch->has_original = false;
  }

  struct Kept final : AnyKept
  {
    std::optional<Local> p;        ///< P of all pairs side by side, with rows cut as Y's
    std::optional<Local> dp;       ///< dP of all pairs side by side, with rows cut as X's
    std::optional<Local> dropped;  ///< D X, or dP A^T
    Shape dropped_from = {};       ///< the shape of that X
  };

  void forward(const DistView<const T, M>& x, const Pass& pass, std::unique_ptr<AnyKept>& any,
               MatrixView<T> y) const override
  {
    if (!is_on()) return;
    Kept& kept = of(any);
    const auto& engine = x.mesh.engine();
    const MatrixView<T> p = fit_local(kept.p, x.mesh, {y.rows(), columns()});
    const std::size_t count = drops(pass) ? 1 : a_.size();
    const Shape part{x.padded.rows(), columns()};
    thin_product(x.mesh, layout_.to_y, part, p, [&](MatrixView<T> out) {
      for (std::size_t i = 0; i < a_.size(); i += count)
        multiply_by_a(x.mesh, dropped(x, pass, kept, i), {i, count}, Op::none, T{},
                      of_roots(out, {i, count}));
    });
    const MatrixView<const T> thin = p;
    for_each_piece(b_, [&](const Thin& branch, const Piece& piece) {
      if (!branch.merged)
        engine.gemm(Op::none, Op::none, scale(), of_roots(thin, {branch.root}),
                    branch.matrix.value.padded().block(0, piece.in_b, {options_.rank, piece.width}),
                    T{1}, y.block(0, piece.in_y, {y.rows(), piece.width}));
    });
  }

  void backward(const DistView<const T, M>& x, MatrixView<const T> dy, const Pass& pass,
                GradientReducer<T, M>& gradients, std::unique_ptr<AnyKept>& any,
                const MatrixView<T>* dx) override
  {
    if (b_.empty()) return;
    Kept& kept = of(any);
    require_unmerged("backward");
    for (const Thin& root : a_) require_gradient(root.matrix.gradient);
    const auto& engine = x.mesh.engine();
    const MatrixView<T> dp = fit_local(kept.dp, x.mesh, {x.padded.rows(), columns()});
    const Shape part{dy.rows(), columns()};
    thin_product(x.mesh, layout_.to_x, part, dp, [&](MatrixView<T> out) {
      engine.fill(out, T{});
      for_each_piece(b_, [&](Thin& branch, const Piece& piece) {
        engine.gemm(Op::none, Op::transpose, scale(),
                    dy.block(0, piece.in_y, {dy.rows(), piece.width}),
                    std::as_const(branch.matrix.value)
                        .padded()
                        .block(0, piece.in_b, {options_.rank, piece.width}),
                    T{1}, of_roots(out, {branch.root}));
      });
    });
    const MatrixView<const T> p = std::as_const(*kept.p).padded();
    for_each_piece(b_, [&](Thin& branch, const Piece& piece) {
      engine.gemm(
          Op::transpose, Op::none, scale(), of_roots(p, {branch.root}),
          dy.block(0, piece.in_y, {dy.rows(), piece.width}), T{},
          branch.matrix.gradient.padded().block(0, piece.in_b, {options_.rank, piece.width}));
    });
    for (Thin& branch : b_)
      gradients.reduce(branch.matrix.gradient.padded(), replicas_along(x.mesh, layout_.y_rows));
    const MatrixView<const T> thin = dp;
    const std::size_t count = drops(pass) ? 1 : a_.size();
    for (std::size_t i = 0; i < a_.size(); i += count)
    {
      const Run run{i, count};
      multiply_transposed(x.mesh, dropped(x, pass, kept, i), of_roots(thin, run), run);
      for (std::size_t j = i; j < i + count; ++j)
        gradients.reduce(a_[j].matrix.gradient.padded(), replicas_along(x.mesh, layout_.x_rows));
      if (dx != nullptr) add_input_gradient(x, of_roots(thin, run), run, pass, kept, *dx);
    }
  }

  void append_parameters(Parameters<T, M>& list, const std::string& prefix) override
  {
    for (std::size_t i = 0; i < a_.size(); ++i)
    {
      const auto is_listed = [i](const Thin& branch) { return branch.root == i && !branch.merged; };
      if (std::ranges::none_of(b_, is_listed)) continue;
      list.push_back(a_[i].matrix.parameter(prefix + a_[i].name + "lora_a"));
      for (Thin& branch : b_)
        if (is_listed(branch))
          list.push_back(branch.matrix.parameter(prefix + branch.name + "lora_b"));
    }
  }

 private:
  /// A, which several weights may share, or the B of one weight.
  struct Thin
  {
    Matrix matrix;
    std::string name;             // the names of its weights, and a dot if they have any
    std::size_t index;            // A's number in random streams, or the number of B's weight
    std::size_t root = 0;         // the number of the A that belongs to this B
    MergedColumns columns = {};   // B's columns in Y
    bool merged = false;          // whether s A B is a part of W
    bool has_original = false;    // whether `original` holds W as it was before
    Buffer original = Buffer(0);  // this rank's block of it
  };
  /// A range of matrices A with the same D X, side by side. Without dropout, the range contains all
  /// of them, so X is read once.
  struct Run
  {
    std::size_t first;
    std::size_t count = 1;
  };
  /// A piece of one output's columns on this rank.
  struct Piece
  {
    std::size_t in_y;   // its first column in the block of Y
    std::size_t in_b;   // its first column in the block of B
    std::size_t width;  // the number of its columns
  };

  [[nodiscard]] static Kept& of(std::unique_ptr<AnyKept>& kept)
  {
    if (!kept) kept = std::make_unique<Kept>();
    return static_cast<Kept&>(*kept);
  }

  /// The B of weight i, or null.
  [[nodiscard]] Thin* find(std::size_t i)
  {
    const auto found = std::ranges::find(b_, i, &Thin::index);
    return found == b_.end() ? nullptr : &*found;
  }
  /// Calls f(B, piece) for each piece of each of these matrices B.
  template <class Branches, class F>
  static void for_each_piece(Branches& branches, F f)
  {
    for (auto& branch : branches)
    {
      const MergedColumns& c = branch.columns;
      for (std::size_t k = 0; k < c.pieces && k * c.width < c.valid; ++k)
        f(branch,
          Piece{c.first + k * c.stride, k * c.width, std::min(c.width, c.valid - k * c.width)});
    }
  }
  /// @param call  the function that was called
  void require_unmerged(const char* call) const
  {
    require<ArgumentError>(std::ranges::none_of(b_, &Thin::merged), "got ", call,
                           " for LoRA's A and B while they are part of the weight, so the "
                           "weight would not follow them; call unmerge_lora first, or make a "
                           "new network");
  }

  [[nodiscard]] static std::string dotted(const std::string& name)
  {
    return name.empty() ? name : name + ".";
  }
  /// The number of P's columns.
  [[nodiscard]] std::size_t columns() const { return a_.size() * options_.rank; }
  /// The columns of a thin matrix that belong to a run of matrices A.
  template <class V>
  [[nodiscard]] MatrixView<V> of_roots(MatrixView<V> thin, Run run) const
  {
    return thin.block(0, run.first * options_.rank, {thin.rows(), run.count * options_.rank});
  }
  [[nodiscard]] T scale() const
  {
    return static_cast<T>(static_cast<Real<Accumulator<T>>>(options_.scale()));
  }

  /// The dropout mask that A_i applies to X.
  [[nodiscard]] auto mask(const DistView<const T, M>& x, const Pass& pass, std::size_t i) const
  {
    return Dropout{options_.dropout, seed_, a_[i].index, Draw::lora_dropout}.mask(
        x, *pass.training_step, pass.cut);
  }
  [[nodiscard]] bool drops(const Pass& pass) const
  {
    return pass.training_step && options_.dropout > 0;
  }
  /// Computes C = in A + beta C, or C = in A^T + beta C, for a run of matrices A.
  void multiply_by_a(const M& mesh, MatrixView<const T> in, Run run, Op op, T beta,
                     MatrixView<T> c) const
  {
    const auto& engine = mesh.engine();
    const MatrixView<const T> first = a_[run.first].matrix.value.padded();
    if (run.count == 1) return engine.gemm(Op::none, op, T{1}, in, first, beta, c);
    BorrowedMatrix<T, M> all{mesh, {first.rows(), columns()}};
    for (std::size_t j = 0; j < run.count; ++j)
      engine.copy(a_[j].matrix.value.padded(), of_roots(all.view(), {j}));
    engine.gemm(Op::none, op, T{1}, in, MatrixView<const T>{all.view()}, beta, c);
  }
  /// Computes dA = (D X)^T dP for a run of matrices A.
  void multiply_transposed(const M& mesh, MatrixView<const T> in, MatrixView<const T> dp, Run run)
  {
    const auto& engine = mesh.engine();
    if (run.count == 1)
      return engine.gemm(Op::transpose, Op::none, T{1}, in, dp, T{},
                         a_[run.first].matrix.gradient.padded());
    BorrowedMatrix<T, M> all{mesh, {in.cols(), dp.cols()}};
    engine.gemm(Op::transpose, Op::none, T{1}, in, dp, T{}, all.view());
    for (std::size_t j = 0; j < run.count; ++j)
      engine.copy(MatrixView<const T>{of_roots(all.view(), {j})}, a_[j].matrix.gradient.padded());
  }
  /// Returns this rank's block of D X, the input of A_i. Without dropout, that is X.
  [[nodiscard]] MatrixView<const T> dropped(const DistView<const T, M>& x, const Pass& pass,
                                            Kept& kept, std::size_t i) const
  {
    if (!drops(pass)) return x.padded;
    const MatrixView<T> all = fit_dropped(kept, x);
    x.mesh.engine().map_indexed(x.with(all).valid(), mask(x, pass, i), x.valid());
    return all;
  }
  /// Adds D dP A^T to dX for a run of matrices A.
  void add_input_gradient(const DistView<const T, M>& x, MatrixView<const T> dp, Run run,
                          const Pass& pass, Kept& kept, MatrixView<T> dx) const
  {
    if (!drops(pass)) return multiply_by_a(x.mesh, dp, run, Op::transpose, T{1}, dx);
    const MatrixView<T> all = fit_dropped(kept, x);
    multiply_by_a(x.mesh, dp, run, Op::transpose, T{}, all);
    const MatrixView<T> sum = x.with(dx).valid();
    x.mesh.engine().map_indexed(sum, Dropout::sum_with(mask(x, pass, run.first)),
                                MatrixView<const T>{sum}, MatrixView<const T>{x.with(all).valid()});
  }

  [[nodiscard]] static MatrixView<T> fit_local(std::optional<Local>& kept, const M& mesh,
                                               Shape shape)
  {
    return fit(kept, mesh, shape, mesh.quantum()).padded();
  }
  /// Returns a matrix of the shape of this rank's block of X, with zeros as padding.
  [[nodiscard]] static MatrixView<T> fit_dropped(Kept& kept, const DistView<const T, M>& x)
  {
    if (std::exchange(kept.dropped_from, x.shape) != x.shape) kept.dropped.reset();
    return fit_local(kept.dropped, x.mesh, x.padded.shape());
  }

  /// Returns all elements of A or B.
  /// @param axes  the axes that cut it
  [[nodiscard]] static Buffer whole(const Matrix& m, unsigned axes)
  {
    const M& mesh = m.place.mesh;
    Buffer all(m.place.shape.size());
    const MatrixView<T> matrix{all.data(), m.place.shape};
    const Shape mine = m.block.valid();
    mesh.engine().copy(m.value.padded().block(0, 0, mine),
                       matrix.block(m.block.rows.offset, m.block.cols.offset, mine));
    if (auto* const ranks = replicas_along(mesh, axes)) ranks->all_reduce(matrix.elements());
    return all;
  }

  LoraLayout<M> layout_ = {};
  LoraOptions options_;
  std::uint64_t seed_ = 0;
  std::vector<Thin> a_;
  std::vector<Thin> b_;
};

/// Makes pairs for a layer that has none.
template <RealScalar T, class M>
std::unique_ptr<LoraPairs<T, M>> make_lora()
{
  return std::make_unique<LoraMatrices<T, M>>();
}

}  // namespace detail

/// Gives weight i of a linear layer its A and B, with initial values, unless it has them.
/// @throws ArgumentError for options out of range, for another rank or scale than the layer's other
/// weights have, or while a pair is merged
template <RealScalar T, class M>
void add_lora(LayerWithLora<T, M>& layer, std::size_t i, const LoraOptions& options)
{
  options.check();
  auto& pairs = layer.lora_pairs();
  if (!pairs) pairs = detail::make_lora<T, M>();
  pairs->add(layer, i, options);
}
/// Gives a weight in a network's list of parameters its A and B.
template <RealScalar T, class M>
void add_lora(const Parameter<T, M>& weight, const LoraOptions& options)
{
  using Layer = LayerWithLora<T, typename detail::MeshOfStage<M>::type>;
  add_lora(dynamic_cast<Layer&>(*weight.lora), weight.lora_weight, options);
}

namespace detail
{

/// Returns what the constructor of a network takes, or null for no options.
/// @param shares_input  whether layers that are one product have one A whatever the options say
/// @throws ArgumentError for options out of range
template <RealScalar T, class M>
[[nodiscard]] std::unique_ptr<LoraRequest<T, M>>
lora_request(const std::optional<LoraOptions>& options, bool shares_input = false)
{
  if (!options) return nullptr;
  options->check();
  LoraRequest<T, M> request{*options, add_lora, std::vector<bool>(options->layers.size())};
  if (shares_input) request.options.shared_input = true;
  return std::make_unique<LoraRequest<T, M>>(std::move(request));
}

}  // namespace detail

/// The instances of the compiled library (cubist/core/instances.hpp).
#define CUBIST_LORA_INSTANCES(prefix, M, T) CUBIST_INSTANCE(prefix, detail::make_lora<T, M>)
CUBIST_FOR_MESH_SCALARS(CUBIST_LORA_INSTANCES)

}  // namespace cubist::CUBIST_ABI
