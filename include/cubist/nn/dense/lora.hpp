// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The thin matrices of LoRA beside the weights of one linear layer, or of several with the same X,
// on any scheme: Y_i = X W_i + s (D X A) B_i, with dropout D while training.
//
//   X (M, K) S::Input    A (K, r) rows as X's columns    B_i (r, N_i) columns as Y's
//   P = D X A (M, r) rows as Y's                         Y (M, N) S::Output
//
// r is never cut, so it is not padded. A and B lie where X and Y need them, wherever W lies, so W
// is neither gathered nor read. For Megatron's first layer, for example, A is on every rank, and B
// is cut as W is; for its second layer, it is the other way round.
//
//   forward    Compute a part of P from this rank's columns of X. If Y's rows are cut otherwise
//              than X's: all_gather along the axis that cuts X's rows alone, reduce_scatter along
//              the one that cuts Y's alone. all_reduce along the other axes that cut X's columns.
//              Then Y += s P B.
//   backward   dP = s dY B^T, from Y's rows to X's in the same way. dB = s P^T dY and
//              dA = (D X)^T dP, which a reducer sums over replicas. dX += D dP A^T.
//
// Elements that one rank sends, for m rows of X on a rank, n = r times the number of matrices A,
// g ranks along the axis that cuts X's rows alone, f along the one that cuts Y's alone, and c along
// the other axes that cut X's columns:
//
//   forward   (g-1) m n + (f-1)/f (g m) n + 2 (c-1)/c (g m / f) n
//
// backward likewise, with X and Y in each other's place, and the sums of dA and dB over replicas.
// plan/lora_cost.hpp has the formulas.
//
// Source: Hu et al., "LoRA", arXiv 2106.09685; PEFT, LoraLayer, for the initial values.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
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
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// @throws ArgumentError for a weight that is stored in fewer bits
[[noreturn]] inline void refuse_merge(StoredWeights stored)
{
  fail<ArgumentError>({"got merge_lora for weights that are stored as ", to_string(stored),
                       ", so W + s A B would be rounded a second time; merge in a model without "
                       "`.weights`, save that, and load it"});
}

/// Writes the sum of a product's parts, all of whose columns are on each rank, to `whole`.
/// @param part  the shape of a part on this rank
/// @param product (out) computes this rank's part
template <class Move, class T, class M, class Product>
void thin_product(const M& mesh, Shape part, MatrixView<T> whole, Product product)
{
  auto* const gathered = replicas_along(mesh, typename Move::Gathered{});
  auto* const scattered = replicas_along(mesh, typename Move::Scattered{});
  auto* const reduced = replicas_along(mesh, typename Move::Reduced{});
  if (!gathered && !scattered)
    product(whole);
  else if constexpr (RealScalar<T>)
  {
    // Rows that no axis cuts are not padded, so there may be fewer of them than of those that are.
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

}  // namespace detail

/// A piece of an output's columns on this rank.
struct LoraPiece
{
  std::size_t in_y;   // its first column in the block of Y
  std::size_t in_b;   // its first column in the block of B
  std::size_t width;  // its columns
};

/// @throws ShapeError, MeshError from every call, for matrices that do not fit
template <SchemeType S, class B, Scalar T>
class LoraMatrices
{
 public:
  using Mesh = AxisMesh<typename S::Axes, B>;
  using Input = DistMatrix<T, typename S::Input, Mesh>;
  /// A (in, r), whose rows are cut as X's columns.
  using In = DistMatrix<T, Transposed<RowVector<typename S::Input>>, Mesh>;
  /// B (r, out), whose columns are cut as Y's.
  using Out = DistMatrix<T, RowVector<typename S::Output>, Mesh>;

  /// One of the layers with this X.
  struct Output
  {
    std::string name;               ///< before ".weight", or empty
    std::size_t index;              ///< its number in random streams
    Shape weight;                   ///< (in, out)
    Quanta quanta;                  ///< of the weight
    std::vector<LoraPiece> pieces;  ///< its columns on this rank
    bool has_gradients;             ///< whether A and B are trained
  };

  /// Gives output i a pair of A and B. If it has one of this rank, that stays.
  /// @param outputs  all layers with this X
  /// @throws ArgumentError for options out of range, another rank or scale than the other outputs
  /// have, complex elements, or if a pair is merged
  void add(const Mesh& mesh, const std::vector<Output>& outputs, std::size_t i,
           const LoraOptions& options, std::uint64_t seed)
  {
    options.check();
    require<ArgumentError>(RealScalar<T>,
                           "got LoRA for a layer of complex elements, but a mesh lends only real "
                           "memory to its thin products; use a real scalar");
    require_unmerged("add");
    require<ArgumentError>(
        branches_.empty() || (options.rank == options_.rank && options.scale() == options_.scale()),
        "got LoRA of rank ", options.rank, " and scale ", options.scale(),
        " for a layer beside one of rank ", options_.rank, " and scale ", options_.scale(),
        ", but both are computed from one product; remove the other first, or give both the same");
    options_ = options;
    seed_ = seed;
    if (!options.shared_input) return add_pair(mesh, outputs, {i});
    std::vector<std::size_t> all;
    for (std::size_t o = 0; o < outputs.size(); ++o) all.push_back(o);
    add_pair(mesh, outputs, all);
  }
  /// Removes the pair of output i, and with it those that share its A.
  /// @throws ArgumentError if a pair is merged
  void remove(std::size_t i)
  {
    require_unmerged("remove");
    const auto found = std::ranges::find(branches_, i, &Branch::output);
    if (found == branches_.end()) return;
    const std::size_t root = found->root;
    std::erase_if(branches_, [&](const Branch& b) { return b.root == root; });
    for (auto& b : branches_) b.root -= b.root > root ? 1 : 0;
    roots_.erase(roots_.begin() + static_cast<std::ptrdiff_t>(root));
  }

  /// The options of output i's pair, or null if it has none.
  [[nodiscard]] const LoraOptions* options(std::size_t i) const
  {
    return find(i) != nullptr ? &options_ : nullptr;
  }
  /// Whether an output has a pair that is not merged.
  [[nodiscard]] bool is_on() const
  {
    return std::ranges::any_of(branches_, [](const Branch& b) { return !b.merged; });
  }

  /// W += s A B
  /// @param keeps  whether to keep the W of before, for `unmerge`
  void merge(std::size_t i, const DistView<T, Mesh>& w, bool keeps)
  {
    Branch* const branch = find(i);
    if (branch == nullptr || std::exchange(branch->merged, true) || !w.mesh.active()) return;
    const auto& engine = w.mesh.engine();
    const auto block = w.block(w.mesh.rank());
    const MatrixView<T> mine = w.valid();
    if (keeps)
    {
      branch->original.emplace(mine.size());
      engine.copy(MatrixView<const T>{mine}, MatrixView<T>{branch->original->data(), mine.shape()});
    }
    const Buffer a = whole(roots_[branch->root].a, typename S::Input::ColAxes{});
    const Buffer b = whole(branch->b, typename S::Output::ColAxes{});
    const MatrixView<const T> left{a.data(), {w.shape.rows, options_.rank}};
    const MatrixView<const T> right{b.data(), {options_.rank, w.shape.cols}};
    engine.gemm(Op::none, Op::none, scale(),
                left.block(block.rows.offset, 0, {block.rows.valid, options_.rank}),
                right.block(0, block.cols.offset, {options_.rank, block.cols.valid}), T{1}, mine);
  }
  /// Sets W to the bits that it had before `merge`.
  /// @throws ArgumentError if they were not kept
  void unmerge(std::size_t i, const DistView<T, Mesh>& w)
  {
    Branch* const branch = find(i);
    if (branch == nullptr || !branch->merged) return;
    require<ArgumentError>(
        branch->original.has_value() || !w.mesh.active(),
        "got a weight to unmerge that was merged without its original, so subtracting s A B would "
        "leave other bits than it had; pass KeepWeights::yes to merge_lora, or load the weights");
    branch->merged = false;
    if (!w.mesh.active()) return;
    const MatrixView<T> mine = w.valid();
    w.mesh.engine().copy(MatrixView<const T>{branch->original->data(), mine.shape()}, mine);
    branch->original.reset();
  }

  /// What a forward leaves for its backward.
  struct Kept
  {
    /// P of all pairs side by side, with rows cut as Y's.
    std::optional<DistMatrix<T, Layout<typename S::Output::RowAxes, Cols<>>, Mesh>> p;
    /// dP, with rows cut as X's.
    std::optional<DistMatrix<T, Layout<typename S::Input::RowAxes, Cols<>>, Mesh>> dp;
    std::optional<Input> dropped;  ///< D X, or D dX
  };

  /// Y += s (D X A) B, for the block of Y on this rank.
  void forward(const Input& x, const Pass& pass, Kept& kept, MatrixView<T> y) const
  {
    if (!is_on()) return;
    using Move = detail::ThinMove<typename S::Input::RowAxes, typename S::Output::RowAxes,
                                  typename S::Input::ColAxes>;
    const auto& engine = x.mesh().engine();
    auto& p = fit(kept.p, x.mesh(), {x.rows(), columns()}, {x.quanta().rows, x.mesh().quantum()});
    detail::thin_product<Move>(
        x.mesh(), {x.padded().rows(), columns()}, p.padded(), [&](MatrixView<T> out) {
          for_each_input(x, pass, kept,
                         [&](MatrixView<const T> in, Run run, MatrixView<const T> a) {
                           engine.gemm(Op::none, Op::none, T{1}, in, a, T{}, of_roots(out, run));
                         });
        });
    const MatrixView<const T> thin = std::as_const(p).padded();
    for (const Branch& branch : branches_)
      for (const LoraPiece& piece : branch.pieces)
        if (!branch.merged)
          engine.gemm(Op::none, Op::none, scale(), of_root(thin, branch.root),
                      branch.b.padded().block(0, piece.in_b, {options_.rank, piece.width}), T{1},
                      y.block(0, piece.in_y, {y.rows(), piece.width}));
  }

  /// The gradients of A and B, which `gradients` takes; adds to dX, if it is given.
  /// @param dy  the block of dY on this rank
  /// @pre X, the pass and `kept` are those of a forward
  /// @throws ArgumentError for a layer without gradients, or whose pair is merged
  void backward(const Input& x, MatrixView<const T> dy, const Pass& pass,
                GradientReducer<T, Mesh>& gradients, Kept& kept, Input* dx)
  {
    using Move = detail::ThinMove<typename S::Output::RowAxes, typename S::Input::RowAxes,
                                  typename S::Output::ColAxes>;
    using OfA = typename PendingAxes<typename In::Layout, typename S::Input::RowAxes>::type;
    using OfB = typename PendingAxes<typename Out::Layout, typename S::Output::RowAxes>::type;
    if (branches_.empty()) return;
    require_trainable();
    const auto& mesh = x.mesh();
    const auto& engine = mesh.engine();
    auto& dp = fit(kept.dp, mesh, {x.rows(), columns()}, {x.quanta().rows, mesh.quantum()});
    detail::thin_product<Move>(mesh, {dy.rows(), columns()}, dp.padded(), [&](MatrixView<T> out) {
      engine.fill(out, T{});
      for_each_piece([&](Branch& branch, const LoraPiece& piece) {
        engine.gemm(
            Op::none, Op::transpose, scale(), dy.block(0, piece.in_y, {dy.rows(), piece.width}),
            std::as_const(branch.b).padded().block(0, piece.in_b, {options_.rank, piece.width}),
            T{1}, of_root(out, branch.root));
      });
    });
    const MatrixView<const T> p = std::as_const(*kept.p).padded();
    for_each_piece([&](Branch& branch, const LoraPiece& piece) {
      engine.gemm(Op::transpose, Op::none, scale(), of_root(p, branch.root),
                  dy.block(0, piece.in_y, {dy.rows(), piece.width}), T{},
                  branch.db.padded().block(0, piece.in_b, {options_.rank, piece.width}));
    });
    for (Branch& branch : branches_) gradients.sum(mesh, OfB{}, branch.db.padded());
    const MatrixView<const T> thin = std::as_const(dp).padded();
    for_each_input(x, pass, kept, [&](MatrixView<const T> in, Run run, MatrixView<const T> a) {
      multiply_transposed(engine, in, of_roots(thin, run), run);
      for (std::size_t i = run.first; i < run.first + run.count; ++i)
        gradients.sum(mesh, OfA{}, roots_[i].da.padded());
      if (dx != nullptr) add_input_gradient(of_roots(thin, run), a, run, pass, kept, *dx);
    });
  }

  /// Appends A and B of each pair that is not merged: lora_a and lora_b behind `prefix` and the
  /// name of the output, and a dot if there is one. The name of an A that several outputs share has
  /// all their names.
  void append_parameters(Parameters<T, Mesh>& list, const std::string& prefix)
  {
    for (std::size_t i = 0; i < roots_.size(); ++i)
    {
      std::string shared;
      bool any = false;
      for (const Branch& branch : branches_)
      {
        if (branch.root != i) continue;
        shared += (shared.empty() ? "" : "_") + branch.name;
        any = any || !branch.merged;
      }
      if (!any) continue;
      list.push_back({prefix + dotted(shared) + "lora_a", roots_[i].a.view(), roots_[i].da.view()});
      for (Branch& branch : branches_)
        if (branch.root == i && !branch.merged)
          list.push_back(
              {prefix + dotted(branch.name) + "lora_b", branch.b.view(), branch.db.view()});
    }
  }

 private:
  using Buffer = typename Mesh::Engine::template Buffer<T>;

  /// A, which several outputs may share.
  struct Root
  {
    In a;
    In da;
    std::size_t index;
  };
  /// Some A side by side.
  struct Run
  {
    std::size_t first;
    std::size_t count;
  };
  /// B of an output.
  struct Branch
  {
    std::size_t output;
    std::size_t root;
    std::string name;
    std::vector<LoraPiece> pieces;
    Out b;
    Out db;
    bool merged = false;
    std::optional<Buffer> original = {};  // the block of W before it was merged
  };

  void add_pair(const Mesh& mesh, const std::vector<Output>& outputs,
                const std::vector<std::size_t>& members)
  {
    if (find(members.front()) != nullptr) return;
    const Output& first = outputs[members.front()];
    const std::size_t r = options_.rank;
    In a{mesh, {first.weight.rows, r}, {first.quanta.rows, mesh.quantum()}};
    detail::initialize(a, Uniform{}, stream(seed_, Draw::lora, first.index), first.weight.rows);
    In da = gradient_like(a, first.has_gradients);
    roots_.push_back({std::move(a), std::move(da), first.index});
    for (const std::size_t i : members)
    {
      const Output& output = outputs[i];
      Out b{mesh, {r, output.weight.cols}, {mesh.quantum(), output.quanta.cols}};
      Out db = gradient_like(b, output.has_gradients);
      branches_.push_back(
          {i, roots_.size() - 1, output.name, output.pieces, std::move(b), std::move(db)});
    }
  }

  [[nodiscard]] const Branch* find(std::size_t output) const
  {
    const auto found = std::ranges::find(branches_, output, &Branch::output);
    return found == branches_.end() ? nullptr : &*found;
  }
  [[nodiscard]] Branch* find(std::size_t output)
  {
    return const_cast<Branch*>(std::as_const(*this).find(output));
  }
  template <class F>
  void for_each_piece(F f)
  {
    for (Branch& branch : branches_)
      for (const LoraPiece& piece : branch.pieces) f(branch, piece);
  }
  /// @param call  what was called
  void require_unmerged(const char* call) const
  {
    for (const Branch& branch : branches_)
      require<ArgumentError>(!branch.merged, "got ", call,
                             " for LoRA's A and B while they are part of the weight, which would "
                             "not follow them; call unmerge_lora first, or make the network anew");
  }
  void require_trainable() const
  {
    require_unmerged("backward");
    for (const Root& root : roots_) detail::require_gradient(root.da);
  }

  [[nodiscard]] static std::string dotted(const std::string& name)
  {
    return name.empty() ? name : name + ".";
  }
  /// The columns of P.
  [[nodiscard]] std::size_t columns() const { return roots_.size() * options_.rank; }
  /// The columns of a thin matrix that belong to A number i.
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

  [[nodiscard]] Dropout dropout(std::size_t root) const
  {
    return Dropout{options_.dropout, seed_, roots_[root].index, Draw::lora_dropout};
  }
  /// Calls f(D X, run, its A as one matrix) for each run with the same D X, so that X is read once
  /// for all A without dropout.
  template <class F>
  void for_each_input(const Input& x, const Pass& pass, Kept& kept, F f) const
  {
    const bool drops = pass.training_step && options_.dropout > 0;
    const std::size_t count = drops ? 1 : roots_.size();
    for (std::size_t i = 0; i < roots_.size(); i += count)
    {
      const MatrixView<const T> in = dropped(x, pass, kept, i).padded();
      const MatrixView<const T> a = roots_[i].a.padded();
      if constexpr (RealScalar<T>)
        if (count > 1)
        {
          detail::BorrowedMatrix<T, Mesh> all{x.mesh(), {a.rows(), columns()}};
          for (std::size_t j = 0; j < count; ++j)
            x.mesh().engine().copy(std::as_const(roots_[j].a).padded(), of_root(all.view(), j));
          f(in, Run{i, count}, MatrixView<const T>{all.view()});
          continue;
        }
      f(in, Run{i, 1}, a);
    }
  }
  /// dA = (D X)^T dP, of a run.
  template <class E>
  void multiply_transposed(const E& engine, MatrixView<const T> in, MatrixView<const T> dp, Run run)
  {
    const auto multiply = [&](MatrixView<T> da) {
      engine.gemm(Op::transpose, Op::none, T{1}, in, dp, T{}, da);
    };
    if (run.count == 1) return multiply(roots_[run.first].da.padded());
    if constexpr (RealScalar<T>)
    {
      detail::BorrowedMatrix<T, Mesh> all{roots_.front().a.mesh(), {in.cols(), dp.cols()}};
      multiply(all.view());
      for (std::size_t j = 0; j < run.count; ++j)
        engine.copy(MatrixView<const T>{of_root(all.view(), j)}, roots_[j].da.padded());
    }
  }
  /// D X for A number i, or X without dropout.
  [[nodiscard]] const Input& dropped(const Input& x, const Pass& pass, Kept& kept,
                                     std::size_t i) const
  {
    if constexpr (RealScalar<T>)
      if (pass.training_step && options_.dropout > 0)
      {
        Input& all = fit_like(kept.dropped, x);
        dropout(i).apply(x, all, *pass.training_step, pass.cut);
        return all;
      }
    return x;
  }
  /// dX += D dP A^T, of a run.
  void add_input_gradient(MatrixView<const T> dp, MatrixView<const T> a, Run run, const Pass& pass,
                          Kept& kept, Input& dx) const
  {
    const auto& engine = dx.mesh().engine();
    if constexpr (RealScalar<T>)
      if (pass.training_step && options_.dropout > 0)
      {
        Input& all = fit_like(kept.dropped, dx);
        engine.gemm(Op::none, Op::transpose, T{1}, dp, a, T{}, all.padded());
        return dropout(run.first).add(dx, all, dx, *pass.training_step, pass.cut);
      }
    engine.gemm(Op::none, Op::transpose, T{1}, dp, a, T{1}, dx.padded());
  }

  /// All elements of A or B, of which this rank has the block that `axes` cut.
  template <class Matrix, class Axes>
  [[nodiscard]] static Buffer whole(const Matrix& m, Axes)
  {
    const auto& mesh = m.mesh();
    Buffer all(m.shape().size());
    const MatrixView<T> matrix{all.data(), m.shape()};
    const Block& block = m.block();
    mesh.engine().copy(m.valid(),
                       matrix.block(block.rows.offset, block.cols.offset, block.valid()));
    using Cut = typename PendingAxes<Layout<Rows<>, Cols<>>, Axes>::type;
    if (auto* const ranks = detail::replicas_along(mesh, Cut{}))
      ranks->all_reduce(matrix.elements());
    return all;
  }

  LoraOptions options_;
  std::uint64_t seed_ = 0;
  std::vector<Root> roots_;
  std::vector<Branch> branches_;
};

}  // namespace cubist::CUBIST_ABI
