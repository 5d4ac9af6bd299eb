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
// Every layer of a network may get these matrices at run time, so every program compiles them. They
// therefore learn the scheme at run time, from a LoraLayout, and are compiled once per mesh type.
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
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/algorithm/local_product.hpp"
#include "cubist/core/error.hpp"
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
#include "cubist/model/lora_options.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/initial_values.hpp"
#include "cubist/nn/layer.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// What LoRA's matrices must know about their layer's scheme: where A and B lie, and which ranks
/// take part in which collective.
template <class M>
struct LoraLayout
{
  /// Returns the ranks of a collective, or null where this rank is alone. The first call of each
  /// function is collective.
  using Ranks = typename M::Communicator* (*)(const M&);
  /// The ranks along which a thin product is gathered, scattered and reduced (ThinMove).
  struct Move
  {
    Ranks gathered, scattered, reduced;
  };

  Ranks x_rows, x_cols;                  ///< along the axes that cut X
  Ranks y_rows, y_cols;                  ///< along the axes that cut Y
  Move to_y;                             ///< for P = X A
  Move to_x;                             ///< for dP = dY B^T
  std::shared_ptr<const BlockMap<M>> a;  ///< A (in, r), rows cut as X's columns
  std::shared_ptr<const BlockMap<M>> b;  ///< B (r, out), columns cut as Y's
};

template <class M, class Tuple>
[[nodiscard]] typename M::Communicator* ranks_along(const M& mesh)
{
  return replicas_along(mesh, typename PendingAxes<Layout<Rows<>, Cols<>>, Tuple>::type{});
}

template <class M, class Move>
inline constexpr typename LoraLayout<M>::Move lora_move{&ranks_along<M, typename Move::Gathered>,
                                                        &ranks_along<M, typename Move::Scattered>,
                                                        &ranks_along<M, typename Move::Reduced>};

/// Returns what LoRA's matrices must know about a linear layer whose X and Y have these layouts.
template <class M, class X, class Y, class XRows = typename X::RowAxes,
          class XCols = typename X::ColAxes, class YRows = typename Y::RowAxes,
          class YCols = typename Y::ColAxes>
[[nodiscard]] LoraLayout<M> lora_layout()
{
  return {&ranks_along<M, XRows>,
          &ranks_along<M, XCols>,
          &ranks_along<M, YRows>,
          &ranks_along<M, YCols>,
          lora_move<M, ThinMove<XRows, YRows, XCols>>,
          lora_move<M, ThinMove<YRows, XRows, YCols>>,
          LayoutBlocks<Transposed<RowVector<X>>, M>::get(false),
          LayoutBlocks<RowVector<Y>, M>::get(false)};
}

/// @throws ArgumentError for a weight that is stored in fewer bits
[[noreturn]] inline void refuse_merge(StoredWeights stored)
{
  fail<ArgumentError>({"got merge_lora for weights that are stored as ", to_string(stored),
                       ", so W + s A B would be rounded a second time; merge in a model without "
                       "`.weights`, save that, and load it"});
}

/// Writes a thin product, which is the sum of one part from each rank, to `whole`. Each rank has
/// all columns.
/// @param part  the shape of this rank's part
/// @param product product(out) computes this rank's part
template <RealScalar T, class M, class Product>
void thin_product(const M& mesh, const typename LoraLayout<M>::Move& move, Shape part,
                  MatrixView<T> whole, Product product)
{
  auto* const gathered = move.gathered(mesh);
  auto* const scattered = move.scattered(mesh);
  auto* const reduced = move.reduced(mesh);
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

}  // namespace detail

/// A piece of one output's columns on this rank.
struct LoraPiece
{
  std::size_t in_y;   // its first column in the block of Y
  std::size_t in_b;   // its first column in the block of B
  std::size_t width;  // the number of its columns
};

/// One of the layers that share X, which may get a pair of A and B.
struct LoraOutput
{
  std::string name;               ///< what precedes ".weight" in its name, or empty
  std::size_t index;              ///< its number in random streams
  Shape weight;                   ///< (in, out)
  Quanta quanta;                  ///< the weight's quanta
  std::vector<LoraPiece> pieces;  ///< its columns on this rank
  bool has_gradients;             ///< whether A and B are trained
};

/// The pairs of A and B of one layer, or of several with the same X.
template <Scalar T, class M>
class LoraMatrices
{
  using Matrix = detail::LoraMatrix<T, M>;
  using Local = detail::LocalMatrix<T, M>;
  using Buffer = typename M::Engine::template Buffer<T>;

 public:
  /// Begins without pairs.
  explicit LoraMatrices(const detail::LoraLayout<M>& layout)
      : layout_{layout}
  {
  }

  /// Gives output i a pair of A and B, unless it has one.
  /// @param outputs  all layers with this X
  /// @throws ArgumentError for options out of range, for a rank or scale that differs from the
  /// other outputs', for complex elements, or if a pair is merged
  void add(const M& mesh, std::span<const LoraOutput> outputs, std::size_t i,
           const LoraOptions& options, std::uint64_t seed)
  {
    options.check();
    require<ArgumentError>(RealScalar<T>,
                           "got LoRA for a layer of complex elements, but a mesh lends only real "
                           "memory to its thin products; use a real scalar");
    require_unmerged("add");
    require<ArgumentError>(
        b_.empty() || (options.rank == options_.rank && options.scale() == options_.scale()),
        "got LoRA of rank ", options.rank, " and scale ", options.scale(),
        ", but another output of this layer has rank ", options_.rank, " and scale ",
        options_.scale(),
        ", and one product computes both; remove the other first, or give both the same");
    options_ = options;
    seed_ = seed;
    const std::size_t first = options.shared_input ? 0 : i;
    const std::size_t end = options.shared_input ? outputs.size() : i + 1;
    if (find(first) != nullptr) return;
    std::string name = outputs[first].name;
    for (std::size_t o = first + 1; o < end; ++o) name += "_" + outputs[o].name;
    add_a(mesh, outputs[first], name);
    for (std::size_t o = first; o < end; ++o) add_b(mesh, outputs[o], o);
  }
  /// Removes the pair of output i, and with it those that share its A.
  /// @throws ArgumentError if a pair is merged
  void remove(std::size_t i)
  {
    require_unmerged("remove");
    const Thin* const found = find(i);
    if (found == nullptr) return;
    const std::size_t removed = found->root;
    for (std::size_t n = b_.size(); n-- > 0;)
      if (b_[n].root == removed)
        b_.erase(b_.begin() + static_cast<std::ptrdiff_t>(n));
      else if (b_[n].root > removed)
        --b_[n].root;
    a_.erase(a_.begin() + static_cast<std::ptrdiff_t>(removed));
  }

  /// The options of output i's pair, or null if it has none.
  [[nodiscard]] const LoraOptions* options(std::size_t i) const
  {
    return find(i) != nullptr ? &options_ : nullptr;
  }
  /// Whether an output has a pair that is not merged.
  [[nodiscard]] bool is_on() const
  {
    for (const Thin& branch : b_)
      if (!branch.merged) return true;
    return false;
  }

  /// Adds s A B to W.
  /// @param keeps  whether to keep the old W for `unmerge`
  void merge(std::size_t i, const DistView<T, M>& w, bool keeps)
  {
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
  /// Restores the bits that W had before `merge`.
  /// @throws ArgumentError if they were not kept
  void unmerge(std::size_t i, const DistView<T, M>& w)
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

  /// What `forward` leaves for `backward`.
  struct Kept
  {
    std::optional<Local> p;        ///< P of all pairs side by side, with rows cut as Y's
    std::optional<Local> dp;       ///< dP of all pairs side by side, with rows cut as X's
    std::optional<Local> dropped;  ///< D X, or dP A^T
    Shape dropped_from = {};       ///< the shape of that X
  };

  /// Adds s (D X A) B to this rank's block of Y.
  void forward(const DistView<const T, M>& x, const Pass& pass, Kept& kept, MatrixView<T> y) const
  {
    if constexpr (RealScalar<T>)
    {
      if (!is_on()) return;
      const auto& engine = x.mesh.engine();
      const MatrixView<T> p = fit_local(kept.p, x.mesh, {y.rows(), columns()});
      const std::size_t count = drops(pass) ? 1 : a_.size();
      const Shape part{x.padded.rows(), columns()};
      detail::thin_product(x.mesh, layout_.to_y, part, p, [&](MatrixView<T> out) {
        for (std::size_t i = 0; i < a_.size(); i += count)
          multiply_by_a(x.mesh, dropped(x, pass, kept, i), {i, count}, Op::none, T{},
                        of_roots(out, {i, count}));
      });
      const MatrixView<const T> thin = p;
      for (const Thin& branch : b_)
        for (const LoraPiece& piece : branch.pieces)
          if (!branch.merged)
            engine.gemm(
                Op::none, Op::none, scale(), of_root(thin, branch.root),
                branch.matrix.value.padded().block(0, piece.in_b, {options_.rank, piece.width}),
                T{1}, y.block(0, piece.in_y, {y.rows(), piece.width}));
    }
  }

  /// Computes the gradients of A and B, passes them to `gradients`, and adds D dP A^T to dX.
  /// @param dy  this rank's block of dY
  /// @param dx  this rank's block of dX, or null if it is not wanted
  /// @pre X, the pass and `kept` are those of a `forward`
  /// @throws ArgumentError for a layer without gradients, or whose pair is merged
  void backward(const DistView<const T, M>& x, MatrixView<const T> dy, const Pass& pass,
                GradientReducer<T, M>& gradients, Kept& kept, const MatrixView<T>* dx)
  {
    if constexpr (RealScalar<T>)
    {
      if (b_.empty()) return;
      require_trainable();
      const auto& engine = x.mesh.engine();
      const MatrixView<T> dp = fit_local(kept.dp, x.mesh, {x.padded.rows(), columns()});
      const Shape part{dy.rows(), columns()};
      detail::thin_product(x.mesh, layout_.to_x, part, dp, [&](MatrixView<T> out) {
        engine.fill(out, T{});
        for_each_piece([&](Thin& branch, const LoraPiece& piece) {
          engine.gemm(Op::none, Op::transpose, scale(),
                      dy.block(0, piece.in_y, {dy.rows(), piece.width}),
                      std::as_const(branch.matrix.value)
                          .padded()
                          .block(0, piece.in_b, {options_.rank, piece.width}),
                      T{1}, of_root(out, branch.root));
        });
      });
      const MatrixView<const T> p = std::as_const(*kept.p).padded();
      for_each_piece([&](Thin& branch, const LoraPiece& piece) {
        engine.gemm(
            Op::transpose, Op::none, scale(), of_root(p, branch.root),
            dy.block(0, piece.in_y, {dy.rows(), piece.width}), T{},
            branch.matrix.gradient.padded().block(0, piece.in_b, {options_.rank, piece.width}));
      });
      for (Thin& branch : b_)
        gradients.reduce(branch.matrix.gradient.padded(), layout_.y_rows(x.mesh));
      const MatrixView<const T> thin = dp;
      const std::size_t count = drops(pass) ? 1 : a_.size();
      for (std::size_t i = 0; i < a_.size(); i += count)
      {
        const Run run{i, count};
        multiply_transposed(x.mesh, dropped(x, pass, kept, i), of_roots(thin, run), run);
        for (std::size_t j = i; j < i + count; ++j)
          gradients.reduce(a_[j].matrix.gradient.padded(), layout_.x_rows(x.mesh));
        if (dx != nullptr) add_input_gradient(x, of_roots(thin, run), run, pass, kept, *dx);
      }
    }
  }

  /// Appends A and B of each pair that is not merged. Their names are `prefix`, the output's name
  /// and a dot if it has a name, then lora_a or lora_b. An A that several outputs share is named
  /// for all of them.
  void append_parameters(Parameters<T, M>& list, const std::string& prefix)
  {
    for (std::size_t i = 0; i < a_.size(); ++i)
    {
      bool any = false;
      for (const Thin& branch : b_) any = any || (branch.root == i && !branch.merged);
      if (!any) continue;
      list.push_back(a_[i].matrix.parameter(prefix + a_[i].name + "lora_a"));
      for (Thin& branch : b_)
        if (branch.root == i && !branch.merged)
          list.push_back(branch.matrix.parameter(prefix + branch.name + "lora_b"));
    }
  }

 private:
  /// A, which several outputs may share, or the B of one output.
  struct Thin
  {
    Matrix matrix;
    std::string name;      // the names of its outputs, and a dot if they have any
    std::size_t index;     // A's number in random streams, or the number of B's output
    std::size_t root = 0;  // the number of the A that belongs to this B
    std::vector<LoraPiece> pieces = {};  // B's columns
    bool merged = false;                 // whether s A B is a part of W
    bool has_original = false;           // whether `original` holds W as it was before
    Buffer original = Buffer(0);         // this rank's block of it
  };
  /// A range of matrices A with the same D X, side by side. Without dropout, the range contains all
  /// of them, so X is read once.
  struct Run
  {
    std::size_t first;
    std::size_t count;
  };
  /// Appends an A with its initial values.
  void add_a(const M& mesh, const LoraOutput& output, const std::string& name)
  {
    const Shape shape{output.weight.rows, options_.rank};
    Matrix a{mesh, shape, {output.quanta.rows, mesh.quantum()}, layout_.a, output.has_gradients};
    detail::initialize_block(mesh.engine(), a.value.padded().block(0, 0, a.block.valid()), a.block,
                             shape.cols, Uniform{}, stream(seed_, Draw::lora, output.index),
                             shape.rows);
    a_.push_back({std::move(a), dotted(name), output.index});
  }
  /// Appends the B of output i, which belongs to the last A.
  void add_b(const M& mesh, const LoraOutput& output, std::size_t i)
  {
    const Shape shape{options_.rank, output.weight.cols};
    Matrix b{mesh, shape, {mesh.quantum(), output.quanta.cols}, layout_.b, output.has_gradients};
    b_.push_back({std::move(b), dotted(output.name), i, a_.size() - 1, output.pieces});
  }

  [[nodiscard]] const Thin* find(std::size_t output) const
  {
    for (const Thin& branch : b_)
      if (branch.index == output) return &branch;
    return nullptr;
  }
  [[nodiscard]] Thin* find(std::size_t output)
  {
    return const_cast<Thin*>(std::as_const(*this).find(output));
  }
  template <class F>
  void for_each_piece(F f)
  {
    for (Thin& branch : b_)
      for (const LoraPiece& piece : branch.pieces) f(branch, piece);
  }
  /// @param call  the function that was called
  void require_unmerged(const char* call) const
  {
    for (const Thin& branch : b_)
      require<ArgumentError>(!branch.merged, "got ", call,
                             " for LoRA's A and B while they are part of the weight, so the "
                             "weight would not follow them; call unmerge_lora first, or make the "
                             "network anew");
  }
  void require_trainable() const
  {
    require_unmerged("backward");
    for (const Thin& root : a_) detail::require_gradient(root.matrix.gradient);
  }

  [[nodiscard]] static std::string dotted(const std::string& name)
  {
    return name.empty() ? name : name + ".";
  }
  /// The number of P's columns.
  [[nodiscard]] std::size_t columns() const { return a_.size() * options_.rank; }
  /// The columns of a thin matrix that belong to A_i.
  template <class V>
  [[nodiscard]] MatrixView<V> of_root(MatrixView<V> thin, std::size_t i) const
  {
    return of_roots(thin, {i, 1});
  }
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
    detail::BorrowedMatrix<T, M> all{mesh, {first.rows(), columns()}};
    for (std::size_t j = 0; j < run.count; ++j)
      engine.copy(a_[j].matrix.value.padded(), of_root(all.view(), j));
    engine.gemm(Op::none, op, T{1}, in, MatrixView<const T>{all.view()}, beta, c);
  }
  /// Computes dA = (D X)^T dP for a run of matrices A.
  void multiply_transposed(const M& mesh, MatrixView<const T> in, MatrixView<const T> dp, Run run)
  {
    const auto& engine = mesh.engine();
    if (run.count == 1)
      return engine.gemm(Op::transpose, Op::none, T{1}, in, dp, T{},
                         a_[run.first].matrix.gradient.padded());
    detail::BorrowedMatrix<T, M> all{mesh, {in.cols(), dp.cols()}};
    engine.gemm(Op::transpose, Op::none, T{1}, in, dp, T{}, all.view());
    for (std::size_t j = 0; j < run.count; ++j)
      engine.copy(MatrixView<const T>{of_root(all.view(), j)}, a_[j].matrix.gradient.padded());
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
  /// @param ranks  the ranks along the axes that cut it
  [[nodiscard]] static Buffer whole(const Matrix& m, typename detail::LoraLayout<M>::Ranks ranks)
  {
    const M& mesh = m.place.mesh;
    Buffer all(m.place.shape.size());
    const MatrixView<T> matrix{all.data(), m.place.shape};
    const Shape mine = m.block.valid();
    mesh.engine().copy(m.value.padded().block(0, 0, mine),
                       matrix.block(m.block.rows.offset, m.block.cols.offset, mine));
    if (auto* const all_parts = ranks(mesh)) all_parts->all_reduce(matrix.elements());
    return all;
  }

  detail::LoraLayout<M> layout_;
  LoraOptions options_;
  std::uint64_t seed_ = 0;
  std::vector<Thin> a_;
  std::vector<Thin> b_;
};

}  // namespace cubist::CUBIST_ABI
