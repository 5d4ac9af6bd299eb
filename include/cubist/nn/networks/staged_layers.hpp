// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network of layers in stages (scheme/pipeline.hpp), one after the other: what MLP and
// PipelinedLayers on a Pipeline have in common.
//
//   X (M, K) S::Input    Y (M, N) S::Input or S::Next::Input, both replicated along the stages
//
// Each micro-batch is a forward of its own, with its own dropout masks, like the batches of a
// GradientAccumulation. Micro-batches are consecutive rows of X, and the gradient is that of the
// mean over all rows that have a label.
//
// Words a rank: those of the layers of its stage, for each micro-batch, and of
// nn/networks/stage_links.hpp; on the first stage those of nn/networks/stage_rows.hpp for X, and
// one number for the loss.

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/dist_matrix.hpp"
#include "cubist/dist/global.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/mlp.hpp"  // for Score
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/networks/pipeline_options.hpp"
#include "cubist/nn/networks/pipeline_stack.hpp"
#include "cubist/nn/networks/stage_rows.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The matrices between the layers of a network in stages.
struct StagedWidths
{
  std::vector<std::size_t> sizes;  ///< the columns of X and of each layer's output
  std::vector<bool> is_even;       ///< whether they are cut as S::Input is, or as S::Next::Input
  std::string prefix;              ///< of the parameters of layer i, before "i."
};

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, class B, RealScalar T>
class StagedLayers : public Network<T, AxisMesh<typename P::Axes, B>>
{
 protected:
  using S = typename P::StageScheme;

 private:
  using Base = Network<T, AxisMesh<typename P::Axes, B>>;
  using OfStage = NetworkMatrix<S, B, T>;
  using Stack = PipelineStack<OfStage, T, AxisMesh<typename P::Axes, B>>;

 public:
  using typename Base::Mesh;
  /// Outputs, whose layout depends on the number of layers.
  using Activations = NetworkMatrix<P, B, T>;
  /// The input, which all stages hold.
  using Input = DistMatrix<T, typename S::Input, Mesh>;

  /// The gradients of all parameters, for the mean of the softmax cross-entropy over all rows that
  /// have a label, multiplied by `scale`; returns that mean, the same on every rank. Every rank of
  /// the mesh calls it.
  /// @param labels one a row, the same on every rank, as softmax_cross_entropy() takes them
  /// @throws ShapeError, MeshError for an X or labels that do not fit; ArgumentError for fewer rows
  /// than micro-batches
  LossValue compute_gradients(const Input& x, std::span<const int> labels, double scale = 1)
  {
    check_labels(labels, {x.rows(), widths_.sizes.back()});
    Ends ends{*this, x, count_labels(labels), step_of(x)};
    ends.loss = [&](const OfStage& y, OfStage& dy, std::size_t first) {
      const auto mine = labels.subspan(first, y.rows());
      return Counted{softmax_cross_entropy(y, mine, dy), count_labels(mine)};
    };
    return train(ends, scale);
  }
  /// The gradients of all parameters, for the mean of (Y - target)^2 over all elements, multiplied
  /// by `scale`; returns that mean, the same on every rank.
  /// @param target cut as Y is, on all stages
  /// @throws ShapeError, MeshError for an X or a target that do not fit; ArgumentError for fewer
  /// rows than micro-batches
  template <class L>
  LossValue compute_gradients(const Input& x, const DistMatrix<T, L, Mesh>& target,
                              double scale = 1)
  {
    require<ShapeError>(target.shape() == Shape{x.rows(), widths_.sizes.back()}, "got a target of ",
                        target.shape(), " for outputs of ", Shape{x.rows(), widths_.sizes.back()},
                        ", so their elements do not correspond; give it the outputs' shape");
    Ends ends{*this, x, x.rows(), step_of(x)};
    StageRows<T, L, Mesh> rows;
    std::optional<typename StageRows<T, L, Mesh>::Rows> mine;
    ends.loss = [&](const OfStage& y, OfStage& dy, std::size_t first) {
      const auto& y_mine = y.template as<L>();
      rows.copy(target, first, fit_like(mine, y_mine));
      return Counted{mean_squared_error(y_mine, *mine, dy.template as<L>()), y.rows()};
    };
    return train(ends, scale);
  }
  /// Computes the gradients for a target whose layout is known at run time.
  LossValue compute_gradients(const Input& x, const Activations& target, double scale = 1)
  {
    return target.visit(
        [&](const auto& of_layout) -> LossValue { return compute_gradients(x, of_layout, scale); });
  }

  /// Softmax cross-entropy and accuracy on labelled data, without dropout, the same on every rank.
  [[nodiscard]] Score evaluate(const Input& x, std::span<const int> labels)
  {
    check_labels(labels, {x.rows(), widths_.sizes.back()});
    const std::size_t all = count_labels(labels);
    Ends ends{*this, x, all, cut_evaluation(checked(x).rows(), stages(), pipeline_)};
    double hits = 0;
    ends.loss = [&](const OfStage& y, OfStage& scratch, std::size_t first) {
      const auto mine = labels.subspan(first, y.rows());
      const std::size_t count = count_labels(mine);
      if (count > 0) hits += accuracy(y, mine) * static_cast<double>(count);
      return Counted{softmax_cross_entropy(y, mine, scratch), count};
    };
    layers_.evaluate(ends, ends.batches.count);
    std::array<double, 2> numbers{ends.mean(),
                                  mean_of<typename Mesh::Engine>(hits, static_cast<double>(all))};
    layers_.broadcast_from_last(std::span<double>{numbers});
    return {numbers[0], numbers[1]};
  }

  /// Y without dropout, on all stages; the last one sends it to the others.
  [[nodiscard]] Activations predict(const Input& x)
  {
    Ends ends{*this, x, x.rows(), {checked(x).rows(), 1}};
    const Shape shape{x.rows(), widths_.sizes.back()};
    const Quanta quanta{x.quanta().rows, this->mesh_.quantum()};
    const auto make = [&]<class L>(std::type_identity<L>) -> Activations {
      return DistMatrix<T, L, Mesh>{this->mesh_, shape, quanta};
    };
    Activations all = widths_.is_even.back() ? make(std::type_identity<typename S::Input>{})
                                             : make(std::type_identity<typename S::Next::Input>{});
    ends.loss = [&](const OfStage& y, OfStage&, std::size_t) {
      this->mesh_.engine().copy(y.view().padded, all.view().padded);
      return Counted{LossValue{0}, 1};
    };
    layers_.evaluate(ends, 1);
    layers_.links().stages().broadcast(all.view().padded.elements(), layers_.last_stage());
    return all;
  }

  /// Does not compile: forwards and backwards of micro-batches are interleaved.
  template <class X>
  void forward(const X&)
  {
    refuse<X>();
  }
  /// Does not compile: see forward().
  template <class X>
  void backward(const X&)
  {
    refuse<X>();
  }

  /// A target for the loss: the elements of rank 0's `global` (M, sizes[L]), cut as Y is. Every
  /// rank of the mesh calls this.
  /// @throws ShapeError unless `global` has two dimensions; MeshError on an idle rank
  template <class E>
  [[nodiscard]] Activations scatter_target(const E& global) const
  {
    if (widths_.is_even.back()) return scatter_as<T, typename S::Input>(this->mesh_, global);
    return scatter_as<T, typename S::Next::Input>(this->mesh_, global);
  }

  /// Appends the parameters of the layers of all stages, which are named by the layers' numbers.
  void append_parameters(Parameters<T, Mesh>& list) override
  {
    for (std::size_t i = 0; i < layers_.layers(); ++i)
      layers_.append_parameters(list, i, layer_name(i));
  }

 protected:
  /// @param begins the first layer of each piece, and behind them the number of layers
  /// @param make (mesh, i) makes layer i on the mesh of a stage
  template <class Make>
  StagedLayers(const Mesh& mesh, std::uint64_t seed, StagedWidths widths,
               std::vector<std::size_t> begins, const PipelineOptions& options,
               std::size_t recompute, const std::vector<std::string>& frozen, Make make)
      : Base{mesh, seed}, widths_{std::move(widths)}, pipeline_{options},
        layers_{mesh, std::move(begins), "forward of layer", "backward of layer", recompute}
  {
    Freezing freezing{frozen};
    bool all_are_frozen = true;
    std::size_t first_trained = 0;
    for (std::size_t i = 0; i + 1 < widths_.sizes.size(); ++i)
    {
      auto& layer = layers_.add(make(layers_.mesh_of_piece(layers_.piece_of_layer(i)), i));
      const bool is_frozen = freezing.freeze(layer, layer_name(i));
      all_are_frozen = all_are_frozen && is_frozen;
      if (all_are_frozen) first_trained = i + 1;
    }
    freezing.require_all_used();
    layers_.set_first_trained(first_trained);
  }

 private:
  /// A mean, and the number of rows over which it is taken.
  struct Counted
  {
    LossValue mean;
    std::size_t count;
  };

  /// X of micro-batches, and their loss.
  class Ends final : public PipelineEnds<OfStage, T>
  {
    using typename PipelineEnds<OfStage, T>::Reducer;

   public:
    /// @param all  the rows over which the loss is a mean
    Ends(StagedLayers& net, const Input& x, std::size_t all, MicroBatches cut)
        : batches{cut}, net_{net}, x_{x}, all_{all}
    {
    }

    MicroBatches batches;
    /// (Y, dY, the first row) computes dY, and the mean of the rows.
    std::function<Counted(const OfStage&, OfStage&, std::size_t)> loss;
    double scale = 1;
    std::vector<Pass> passes;  // the passes of micro-batches, in training

    [[nodiscard]] Pass pass(std::size_t i) override { return passes.empty() ? Pass{} : passes[i]; }
    OfStage& fit_input(std::optional<OfStage>& x, std::size_t layer, std::size_t i) override
    {
      return net_.fit(x, layer, batches.rows_of(i), x_.quanta().rows);
    }
    [[nodiscard]] const OfStage& input(std::size_t i, std::size_t slot) override
    {
      auto& kept = net_.inputs_;
      while (kept.size() <= slot) kept.emplace_back();
      const Quanta quanta{x_.quanta().rows, x_.quanta().cols};
      const Shape shape{batches.rows_of(i), x_.cols()};
      auto& x = kept[slot];
      if (!x || x->shape() != shape || x->view().quanta != quanta)
        x.emplace(DistMatrix<T, typename S::Input, StageMesh<Mesh>>{net_.layers_.stage_mesh(),
                                                                    shape, quanta});
      net_.rows_.copy(x_, batches.first(i), x->template as<typename S::Input>());
      return *x;
    }
    void take_output(const OfStage& y, std::size_t i) override
    {
      auto& dy = net_.dy_;
      if (!dy || dy->shape() != y.shape() || dy->view().quanta != y.view().quanta)
        dy.emplace(zeros_like(y));
      means_.push_back(loss(y, *dy, batches.first(i)));
    }
    [[nodiscard]] const OfStage& output_gradient(std::size_t, Reducer&) override
    {
      // The mean over micro-batches of these is the gradient of the mean over all rows.
      const auto count = static_cast<double>(means_.back().count * batches.count);
      scale_gradient(*net_.dy_, all_ > 0 ? scale * count / static_cast<double>(all_) : scale);
      return *net_.dy_;
    }

    /// The mean over all rows, on the last stage.
    [[nodiscard]] double mean() const
    {
      double sum = 0;
      for (const Counted& m : means_)
        if (m.count > 0) sum += m.mean * static_cast<double>(m.count);
      return mean_of<typename Mesh::Engine>(sum, static_cast<double>(all_));
    }

   private:
    StagedLayers& net_;
    const Input& x_;
    std::size_t all_;
    std::vector<Counted> means_;
  };

  [[nodiscard]] std::string layer_name(std::size_t i) const
  {
    return widths_.prefix + std::to_string(i) + ".";
  }
  template <class X>
  static void refuse()
  {
    static_assert(!std::is_same_v<X, X>,
                  "a network in stages interleaves the forwards and backwards of micro-batches, so "
                  "it has neither alone; call compute_gradients(x, labels) for a step, and "
                  "predict(x) or evaluate(x, labels) for outputs");
  }

  [[nodiscard]] std::size_t stages() const
  {
    return static_cast<std::size_t>(stages_of(this->mesh_));
  }
  [[nodiscard]] MicroBatches step_of(const Input& x) const
  {
    return cut_step(checked(x).rows(), "rows", stages(), pipeline_);
  }
  const Input& checked(const Input& x) const
  {
    require<ShapeError>(
        x.cols() == widths_.sizes.front(), "got X of ", x.shape(), " for a network of ",
        widths_.sizes.front(),
        " inputs, so columns would be missing or left over; give it a column for each input");
    require<MeshError>(x.mesh() == this->mesh_, "got X of ", x.shape(),
                       " on another mesh than the network's, so its blocks lie on other ranks; "
                       "make it on the network's mesh");
    return x;
  }
  /// A matrix of this many rows for the X of a layer, or for the Y of the last one.
  OfStage& fit(std::optional<OfStage>& m, std::size_t layer, std::size_t rows,
               std::size_t row_quantum) const
  {
    const Shape shape{rows, widths_.sizes[layer]};
    const Quanta quanta{row_quantum, this->mesh_.quantum()};
    const auto& mesh = layers_.stage_mesh();
    if (m && m->shape() == shape && m->view().quanta == quanta) return *m;
    if (widths_.is_even[layer])
      m.emplace(typename OfStage::Even{mesh, shape, quanta});
    else
      m.emplace(typename OfStage::Odd{mesh, shape, quanta});
    return *m;
  }

  LossValue train(Ends& ends, double scale)
  {
    ends.scale = scale;
    for (std::size_t i = 0; i < ends.batches.count; ++i) ends.passes.push_back(this->next_pass());
    auto& reducer = this->begin_gradients();
    layers_.compute_gradients(ends, ends.batches.count, reducer);
    reducer.finish();
    std::array<double, 1> loss{ends.mean()};
    layers_.broadcast_from_last(std::span<double>{loss});
    return LossValue{loss[0]};
  }

  StagedWidths widths_;
  PipelineOptions pipeline_;
  Stack layers_;
  StageRows<T, typename S::Input, Mesh> rows_;
  std::deque<std::optional<OfStage>> inputs_;  // the inputs of slots; their addresses do not change
  std::optional<OfStage> dy_;
};

}  // namespace cubist::CUBIST_ABI::detail
