// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A transformer in stages (scheme/pipeline.hpp): the Transformer of transformer.hpp with its blocks
// on several meshes of scheme S, one after the other.
//
//   first stage   H = E(ids, :), plus the vectors of the positions
//   each stage    H = block(H) for its blocks
//   last stage    logits = norm(H) E^T, or with their own table, and the loss
//
//   Transformer<Pipeline<S>, B, T> model{mesh, config, {.pipeline = {.micro_batches = 8}}};
//   const double loss = model.compute_gradients(ids, length);
//   optimizer.step(parameters);
//
// Micro-batches are consecutive sequences. Each has its own forward pass and dropout masks, like
// the batches of a GradientAccumulation. The gradient is that of the mean loss over all predicted
// tokens.
//
// A tied table is on the first stage and on the last, and both copies begin with the same bits.
// Each stage adds up its part of the gradient over the micro-batches. Then the two exchange their
// parts, and both update their table with the sum.
//
// Elements that one rank sends: for each micro-batch, what the layers of its stage and the links to
// other stages (nn/pipeline/stage_links.hpp) send; and one number for the loss. On the first and
// the last stage also its block of a tied table.
// Source: Narayanan et al., arXiv 2104.04473; the tied table: Megatron-LM.
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cubist/core/scalar.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/gradients/gradient_accumulation.hpp"
#include "cubist/model/pipeline_options.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/losses/labels.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/nn/pipeline/pipeline_stack.hpp"
#include "cubist/nn/transformer/token_batch.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/nn/transformer/transformer_ends.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, class B, RealScalar T>
class StagedTransformer final : public TransformerCalls<P, B, T>
{
  using S = typename P::StageScheme;
  using Calls = TransformerCalls<P, B, T>;
  using Ends = TransformerEnds<S, B, T>;
  using Hidden = typename Ends::Hidden;
  using OfStage = typename Ends::Output;
  using Stage = typename Ends::Mesh;
  using Stack = PipelineStack<Hidden, T, AxisMesh<typename P::Axes, B>>;

 public:
  using typename Calls::Ids;
  using typename Calls::Mesh;
  using typename Calls::Output;

  StagedTransformer(const Mesh& mesh, const TransformerConfig& config,
                    const TransformerOptions& options, const WeightStorage<S, B, T>& storage,
                    LoraRequest<T, StageMesh<Mesh>>* lora)
      : Calls{mesh, config, options.seed, options.inference},
        pipeline_{options.pipeline},
        blocks_{mesh, cut_in_pieces(block_costs(config), stages_of(mesh), options.pipeline),
                "forward of block", "backward of block", options.recompute},
        ends_{blocks_.mesh_of_piece(0), blocks_.mesh_of_piece(blocks_.all_pieces() - 1),
              blocks_.all_pieces() == 1, config, options}
  {
    first_trained_ = ends_.freeze(
        options, lora, config.layers, [&](std::size_t i) -> auto& {
          const auto& of_stage = blocks_.mesh_of_piece(blocks_.piece_of_layer(i));
          return blocks_.add(make_block<S, B, T>(of_stage, config, options, storage, i));
        });
    blocks_.set_first_trained(first_trained_);
  }

  LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                              double scale) override
  {
    this->require_training("compute_gradients");
    CutBatch batch{*this, this->batch_of(ids, labels, sequence), true, scale};
    const std::size_t count = batch.batches.count;
    if (!table_sums_ || table_sums_->count() != count)
      table_sums_.emplace(blocks_.stage_mesh(), count, immediate_);
    table_sums_->restart();
    auto& reducer = this->begin_gradients();
    blocks_.compute_gradients(batch, count, reducer);
    if (shares_table()) sum_table(reducer);
    reducer.finish();
    return LossValue{loss_of_last(batch)};
  }

  [[nodiscard]] double evaluate(Ids ids, std::optional<Ids> labels, std::size_t sequence) override
  {
    CutBatch batch{*this, this->batch_of(ids, labels, sequence), false};
    blocks_.evaluate(batch, batch.batches.count);
    return loss_of_last(batch);
  }

  const Output& predict(Ids ids, std::size_t sequence, std::size_t position,
                        LogitsOf which) override
  {
    CutBatch batch{*this, {ids, ids, sequence}, position, which};
    const std::size_t rows = which == LogitsOf::tokens ? sequence : 1;  // rows of a sequence
    Output& all = fit(outputs_, this->mesh_, {batch.batches.rows * rows, this->config_.vocabulary},
                      {rows * this->mesh_.quantum(), ends_.table().quanta().rows});
    blocks_.evaluate(batch, 1);
    blocks_.links().stages().broadcast(all.padded().elements(), blocks_.last_stage());
    return all;
  }

  void use_cache(std::size_t tokens) override
  {
    blocks_.for_each_layer([&](auto& block) { block.use_cache(tokens); });
  }

  void append_parameters(Parameters<T, Mesh>& list) override
  {
    const std::size_t begin = list.size();
    const int last = blocks_.last_stage();
    const auto append = [&](auto& layer, const char* prefix, int first, int second) {
      Parameters<T, Stage> of_stage;
      layer.append_parameters(of_stage, prefix);
      blocks_.append(list, of_stage, first, second);
    };
    ends_.for_each_before([&](auto& layer, const char* prefix, bool is_on_last) {
      append(layer, prefix, 0, is_on_last ? last : 0);
    });
    for (std::size_t i = 0; i < blocks_.layers(); ++i)
      blocks_.append_parameters(list, i, layer_name(i));
    ends_.for_each_after(
        [&](auto& layer, const char* prefix) { append(layer, prefix, last, last); });
    exempt_from_decay(list, begin);
  }

 private:
  /// Cuts a batch into micro-batches, embeds their tokens, and computes their logits and losses.
  class CutBatch final : public PipelineEnds<Hidden, T>
  {
   public:
    using typename PipelineEnds<Hidden, T>::Reducer;

    /// Prepares losses and, in training, gradients.
    CutBatch(StagedTransformer& model, const TokenBatch& batch, bool trains, double scale = 1)
        : batches{model.micro_batches(batch, trains)},
          model_{model},
          batch_{batch},
          trains_{trains},
          scale_{scale}
    {
      // This is checked even if another rank has the logits, so that errors are the same on every
      // rank.
      all_ = count_labels(checked_next_labels(batch.ids, batch.labels, batch.sequence,
                                              {batch.ids.size(), model.config_.vocabulary}));
      require_positions(model.config_, batch.sequence);
      for (std::size_t i = 0; i < batches.count; ++i)
        passes_.push_back(
            model.ends_.cut_pass(batches.rows_of(i), trains ? model.next_pass(batch.sequence)
                                                            : Pass{.sequence = batch.sequence}));
    }
    /// Prepares logits.
    CutBatch(StagedTransformer& model, const TokenBatch& batch, std::size_t position,
             LogitsOf which)
        : batches{count_sequences(batch.ids.size(), batch.sequence), 1},
          model_{model},
          batch_{batch},
          which_{which},
          passes_{Pass{.training_step = {}, .sequence = batch.sequence, .position = position}}
    {
      require_positions(model.config_, position + batch.sequence);
    }

    const MicroBatches batches;  // counted in sequences

    [[nodiscard]] Pass pass(std::size_t i) override { return passes_[i]; }
    Hidden& fit_input(std::optional<Hidden>& x, std::size_t, std::size_t i) override
    {
      const auto& mesh = model_.blocks_.stage_mesh();
      const Pass& p = passes_[i];
      const std::size_t rows = p.cut.is_cut() ? p.cut.rows() : batches.rows_of(i) * p.sequence;
      return fit(x, mesh, {rows, model_.config_.width},
                 {(p.cut.is_cut() ? 1 : p.sequence) * mesh.quantum(), mesh.quantum()});
    }
    [[nodiscard]] const Hidden& input(std::size_t i, std::size_t slot) override
    {
      return model_.ends_.embed(of(batch_.ids, i), passes_[i], model_.input_kept(slot));
    }
    void take_output(const Hidden& h, std::size_t i) override
    {
      const OfStage& y = model_.ends_.logits(h, passes_[i], which_, model_.output_);
      if (which_ != LogitsOf::rows)
      {
        Output& all = *model_.outputs_;
        return all.mesh().engine().copy(y.padded(), all.padded());
      }
      OfStage* const gradient = trains_ ? &fit_like(model_.d_logits_, y) : nullptr;
      const auto labels = of(batch_.labels, i);
      means_.push_back({cut_next_token_loss<T>(y, of(batch_.ids, i), labels, batch_.sequence,
                                               passes_[i].cut, gradient),
                        count_predicted(labels, batch_.sequence)});
    }
    [[nodiscard]] const Hidden& output_gradient(std::size_t i, Reducer& reducer) override
    {
      auto& m = model_;
      // The mean of these over micro-batches is the gradient of the mean over all tokens.
      const auto count = static_cast<double>(means_.back().count * batches.count);
      scale_gradient(*m.d_logits_, all_ > 0 ? scale_ * count / static_cast<double>(all_) : scale_);
      const bool passes_blocks = m.first_trained_ < m.config_.layers;
      const Hidden* d = m.ends_.backward_logits(*m.d_logits_, {passes_[i], reducer},
                                                m.begin_table(reducer), m.output_, passes_blocks);
      m.finish_table();
      return d ? *d : *m.output_.h;
    }
    [[nodiscard]] bool wants_input_gradient() const override { return model_.ends_.trains_input(); }
    void take_input_gradient(const Hidden& dx, std::size_t i, std::size_t slot,
                             Reducer& reducer) override
    {
      auto& m = model_;
      const bool has_two = m.ends_.has_two_tables();
      m.ends_.backward_input(dx, {passes_[i], reducer}, has_two ? m.begin_table(reducer) : reducer,
                             m.input_kept(slot));
      if (has_two) m.finish_table();
    }

    /// The mean loss over all predicted tokens, on the last stage.
    [[nodiscard]] double mean() const { return mean_of<typename Mesh::Engine>(means_, all_); }

   private:
    /// Returns the tokens of a micro-batch.
    [[nodiscard]] Ids of(Ids all, std::size_t i) const
    {
      return all.subspan(batches.first(i) * batch_.sequence, batches.rows_of(i) * batch_.sequence);
    }

    StagedTransformer& model_;
    TokenBatch batch_;
    LogitsOf which_ = LogitsOf::rows;
    bool trains_ = false;
    double scale_ = 1;
    std::vector<Pass> passes_ = {};
    std::size_t all_ = 0;  // predicted tokens
    std::vector<CountedMean> means_ = {};
  };

  [[nodiscard]] MicroBatches micro_batches(const TokenBatch& batch, bool trains) const
  {
    const std::size_t sequences = count_sequences(batch.ids.size(), batch.sequence);
    const std::size_t stages = stages_of(this->mesh_);
    return trains ? cut_step(sequences, "sequences", stages, pipeline_)
                  : cut_evaluation(sequences, stages, pipeline_);
  }
  [[nodiscard]] typename Ends::InputKept& input_kept(std::size_t slot)
  {
    while (inputs_.size() <= slot) inputs_.push_back(std::make_unique<typename Ends::InputKept>());
    return *inputs_[slot];
  }
  [[nodiscard]] double loss_of_last(const CutBatch& batch)
  {
    double loss = batch.mean();
    blocks_.broadcast_from_last(std::span{&loss, 1});
    return loss;
  }

  // The gradient of a tied table.

  /// Whether this rank holds one of the two copies of a tied table that is trained.
  [[nodiscard]] bool shares_table()
  {
    return ends_.has_two_tables() && !ends_.embedding().is_frozen() &&
           (blocks_.has_first() || blocks_.has_last());
  }
  /// Returns the reducer for the table's gradient in a backward pass; finish_table() completes it.
  [[nodiscard]] GradientReducer<T, Stage>& begin_table(GradientReducer<T, Stage>& of_piece)
  {
    if (!this->config_.tied) return of_piece;
    if (!ends_.has_two_tables())  // the embedding adds its part afterwards
      return immediate_;
    table_sums_->begin();
    return *table_sums_;
  }
  void finish_table()
  {
    if (ends_.has_two_tables()) table_sums_->finish();
  }
  /// Exchanges the two parts of the gradient and adds them. Each is complete on the ranks of its
  /// stage.
  void sum_table(GradientReducer<T, Mesh>& reducer)
  {
    auto& mine = blocks_.has_last() ? ends_.table_gradient() : ends_.embedding().table_gradient();
    const std::span<T> elements = mine.padded().elements();
    const MatrixView<T> other{enlarge(other_part_, elements.size()), mine.padded().shape()};
    auto& stages = blocks_.links().stages();
    const int peer = blocks_.has_last() ? 0 : blocks_.last_stage();
    auto received = stages.async_receive(other.elements(), peer);
    auto sent = stages.async_send(std::span<const T>{elements}, peer);
    received.wait(), sent.wait();
    // A sum of two numbers has the same bits in either order.
    this->mesh_.engine().for_each(Add{}, mine.padded(), MatrixView<const T>{other});
    reducer.reduce(mine.padded(), nullptr);
  }

  using Buffer = typename Mesh::Engine::template Buffer<T>;

  PipelineOptions pipeline_;
  Stack blocks_;
  Ends ends_;
  std::size_t first_trained_ = 0;  // the blocks before this one, and the input, are frozen
  std::vector<std::unique_ptr<typename Ends::InputKept>> inputs_;  // one for each slot
  typename Ends::OutputKept output_;
  std::optional<OfStage> d_logits_;
  ImmediateSums<T, Stage> immediate_;
  // Adds up this stage's part of a tied table's gradient over the micro-batches.
  std::optional<GradientAccumulator<T, Stage>> table_sums_;
  Buffer other_part_ = Buffer(0);
  std::optional<Output> outputs_;
};

}  // namespace cubist::CUBIST_ABI::detail
