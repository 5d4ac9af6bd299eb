// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A network of consecutive layers in stages (scheme/pipeline.hpp): what MLP and PipelinedLayers on
// a Pipeline have in common.
//
//   X (M, K) S::Input    Y (M, N) S::Input or S::Next::Input, both replicated along the stages
//
// Each micro-batch has its own forward pass and dropout masks, like the batches of a
// GradientAccumulation. Micro-batches are consecutive rows of X, and the gradient is that of the
// mean loss over all rows that have a label.
//
// Elements that one rank sends: for each micro-batch, what the layers of its stage and the links to
// other stages (nn/pipeline/stage_links.hpp) send; on the first stage, what
// nn/pipeline/stage_rows.hpp sends for X; and one number for the loss.

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
#include "cubist/matrix/dist_matrix.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/networks/layered_network.hpp"
#include "cubist/nn/networks/network_matrix.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/nn/pipeline/pipeline_stack.hpp"
#include "cubist/nn/pipeline/stage_rows.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, class B, RealScalar T>
class StagedLayers final : public LayeredNetwork<P, B, T>
{
  using S = typename P::StageScheme;
  using Base = LayeredNetwork<P, B, T>;
  using OfStage = NetworkMatrix<S, B, T>;
  using Stack = PipelineStack<OfStage, T, AxisMesh<typename P::Axes, B>>;

 public:
  using typename Base::Activations;
  using typename Base::Input;
  using typename Base::Mesh;

  /// @param costs the costs of the layers, by which they are cut into pieces
  /// @param lora null without LoRA
  /// @param make make(mesh, i) makes layer i on the mesh of a stage
  template <class Make>
  StagedLayers(const Mesh& mesh, std::uint64_t seed, LayerWidths widths,
               const std::vector<double>& costs, const PipelineOptions& options,
               std::size_t recompute, const std::vector<std::string>& frozen,
               LoraRequest<T, StageMesh<Mesh>>* lora, Make make)
      : Base{mesh, seed, std::move(widths)},
        pipeline_{options},
        layers_{mesh, cut_in_pieces(costs, stages_of(mesh), options), "forward of layer",
                "backward of layer", recompute}
  {
    Freezing freezing{frozen};
    layers_.set_first_trained(freezing.freeze_layers(
        layers_.layers(), this->widths().prefix,
        [&](std::size_t i) -> auto& {
          return layers_.add(make(layers_.mesh_of_piece(layers_.piece_of_layer(i)), i));
        },
        lora));
  }

  /// @param all  the number of rows that the loss averages
  /// @param loss loss(Y, dY, first row) computes dY and the mean over the rows
  template <class Loss>
  LossValue train_step(const Input& x, std::size_t all, double scale, Loss loss)
  {
    Ends ends{*this, x, all, cut_step(checked(x).rows(), "rows", stages_of(this->mesh_), pipeline_),
              loss};
    ends.scale = scale;
    for (std::size_t i = 0; i < ends.batches.count; ++i) ends.passes.push_back(this->next_pass());
    auto& reducer = this->begin_gradients();
    layers_.compute_gradients(ends, ends.batches.count, reducer);
    reducer.finish();
    double mean = ends.mean();
    layers_.broadcast_from_last(std::span{&mean, 1});
    return LossValue{mean};
  }

  [[nodiscard]] Score evaluate(const Input& x, std::span<const int> labels)
  {
    const std::size_t all = count_labels(labels);
    double hits = 0;
    const auto loss = [&](const OfStage& y, OfStage& scratch, std::size_t first) {
      const auto mine = labels.subspan(first, y.rows());
      const std::size_t count = count_labels(mine);
      if (count > 0) hits += accuracy(y, mine) * static_cast<double>(count);
      return CountedMean{softmax_cross_entropy(y, mine, scratch), count};
    };
    Ends ends{*this, x, all, cut_evaluation(checked(x).rows(), stages_of(this->mesh_), pipeline_),
              loss};
    layers_.evaluate(ends, ends.batches.count);
    std::array<double, 2> numbers{ends.mean(),
                                  mean_of<typename Mesh::Engine>(hits, static_cast<double>(all))};
    layers_.broadcast_from_last(std::span<double>{numbers});
    return {numbers[0], numbers[1]};
  }

  /// Returns Y, which the last stage sends to the others.
  const Activations& predict(const Input& x)
  {
    Activations& all = fit(y_, this->mesh_, this->widths().is_even.back(),
                           {checked(x).rows(), this->widths().sizes.back()},
                           {x.quanta().rows, this->mesh_.quantum()});
    const auto copy = [&](const OfStage& y, OfStage&, std::size_t) {
      this->mesh_.engine().copy(y.view().padded, all.view().padded);
      return CountedMean{LossValue{0}, 1};
    };
    Ends ends{*this, x, x.rows(), {x.rows(), 1}, copy};
    layers_.evaluate(ends, 1);
    layers_.links().stages().broadcast(all.view().padded.elements(), layers_.last_stage());
    return all;
  }

  /// Returns a function of `y` and a first row that returns as many rows of the target as `y` has,
  /// on the mesh of a stage.
  template <class L>
  [[nodiscard]] static auto rows_of(const DistMatrix<T, L, Mesh>& target)
  {
    return [
      &target, rows = StageRows<T, L, Mesh>{},
      mine = std::optional<typename StageRows<T, L, Mesh>::Rows>{}
    ](const OfStage& y, std::size_t first) mutable -> const auto&
    {
      rows.copy(target, first, fit_like(mine, y.template as<L>()));
      return *mine;
    };
  }

  /// Appends the parameters of the layers of all stages, which are named by the layers' numbers.
  void append_parameters(Parameters<T, Mesh>& list) override
  {
    for (std::size_t i = 0; i < layers_.layers(); ++i)
      layers_.append_parameters(list, i, layer_name(i, this->widths().prefix));
  }

 private:
  /// The ends of the pipeline: X of micro-batches, and their loss.
  class Ends final : public PipelineEnds<OfStage, T>
  {
    using typename PipelineEnds<OfStage, T>::Reducer;

   public:
    /// loss(Y, dY, first row) computes dY and the mean over the rows.
    using Loss = std::function<CountedMean(const OfStage&, OfStage&, std::size_t)>;

    /// @param all  the number of rows that the loss averages
    Ends(StagedLayers& net, const Input& x, std::size_t all, MicroBatches cut, Loss loss)
        : batches{cut},
          net_{net},
          x_{x},
          all_{all},
          loss_{std::move(loss)}
    {
    }

    MicroBatches batches;
    double scale = 1;
    std::vector<Pass> passes;  // the passes of micro-batches, in training

    [[nodiscard]] Pass pass(std::size_t i) override { return passes.empty() ? Pass{} : passes[i]; }
    OfStage& fit_input(std::optional<OfStage>& x, std::size_t layer, std::size_t i) override
    {
      const auto& mesh = net_.layers_.stage_mesh();
      const LayerWidths& widths = net_.widths();
      return fit(x, mesh, widths.is_even[layer], {batches.rows_of(i), widths.sizes[layer]},
                 {x_.quanta().rows, mesh.quantum()});
    }
    [[nodiscard]] const OfStage& input(std::size_t i, std::size_t slot) override
    {
      auto& kept = net_.inputs_;
      while (kept.size() <= slot) kept.emplace_back();
      OfStage& x = fit(kept[slot], net_.layers_.stage_mesh(), true, {batches.rows_of(i), x_.cols()},
                       x_.quanta());
      net_.rows_.copy(x_, batches.first(i), x.template as<typename S::Input>());
      return x;
    }
    void take_output(const OfStage& y, std::size_t i) override
    {
      means_.push_back(loss_(y, fit_like(net_.dy_, y), batches.first(i)));
    }
    [[nodiscard]] const OfStage& output_gradient(std::size_t, Reducer&) override
    {
      // The mean of these over micro-batches is the gradient of the mean over all rows.
      const auto count = static_cast<double>(means_.back().count * batches.count);
      scale_gradient(*net_.dy_, all_ > 0 ? scale * count / static_cast<double>(all_) : scale);
      return *net_.dy_;
    }

    /// The mean loss over all rows, on the last stage.
    [[nodiscard]] double mean() const { return mean_of<typename Mesh::Engine>(means_, all_); }

   private:
    StagedLayers& net_;
    const Input& x_;
    std::size_t all_;
    Loss loss_;
    std::vector<CountedMean> means_;
  };

  const Input& checked(const Input& x) const
  {
    require<ShapeError>(
        x.cols() == this->widths().sizes.front(), "got X of ", x.shape(), " for a network of ",
        this->widths().sizes.front(),
        " inputs, so columns would be missing or left over; give it a column for each input");
    require<MeshError>(x.mesh() == this->mesh_, "got X of ", x.shape(),
                       " on a mesh that is not the network's, so its blocks are on other ranks; "
                       "make it on the network's mesh");
    return x;
  }

  PipelineOptions pipeline_;
  Stack layers_;
  StageRows<T, typename S::Input, Mesh> rows_;
  std::deque<std::optional<OfStage>> inputs_;  // the inputs of slots; their addresses do not change
  std::optional<OfStage> dy_;
  std::optional<Activations> y_;
};

/// The calls of a network of layers in stages.
template <PipelineScheme P, class B, RealScalar T>
class StagedHandle : public LayeredHandle<StagedLayers<P, B, T>>
{
 public:
  /// Does not compile: forward and backward passes of micro-batches are interleaved.
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

 protected:
  using LayeredHandle<StagedLayers<P, B, T>>::LayeredHandle;

 private:
  template <class X>
  static void refuse()
  {
    static_assert(
        !std::is_same_v<X, X>,
        "a network in stages interleaves the forward and backward passes of micro-batches, so "
        "it has neither alone; call compute_gradients(x, labels) for a step, and "
        "predict(x) or evaluate(x, labels) for outputs");
  }
};

}  // namespace cubist::CUBIST_ABI::detail
