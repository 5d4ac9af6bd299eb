// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A transformer in stages (scheme/pipeline.hpp): the Transformer of transformer.hpp, whose blocks
// are on several meshes of scheme S, one after the other.
//
//   first stage   H = E(ids, :), plus the vectors of the positions
//   each stage    H = block(H) for its blocks
//   last stage    logits = norm(H) E^T, or with a table of their own, and the loss
//
//   Transformer<Pipeline<S>, B, T> model{mesh, config, {.pipeline = {.micro_batches = 8}}};
//   const double loss = model.compute_gradients(ids, length);
//   optimizer.step(parameters);
//
// Micro-batches are consecutive sequences. Each is a forward of its own, with its own dropout
// masks, like the batches of a GradientAccumulation. The gradient is that of the mean over all
// tokens that are predicted.
//
// A tied table is on the first stage and on the last, and both copies begin with the same bits.
// Each stage adds up its part of the gradient over the micro-batches. Then the two exchange their
// parts, and both update their table by the sum.
//
// Words a rank: those of the layers of its stage, for each micro-batch, and of
// nn/networks/stage_links.hpp; on the first and the last stage, a rank's block of a tied table; one
// number for the loss.
// Source: Narayanan et al., arXiv 2104.04473; the tied table: Megatron-LM.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/sequence_cut.hpp"
#include "cubist/engine/functions.hpp"
#include "cubist/nn/gradient_accumulator.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/losses/cut_loss.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/networks/pipeline_options.hpp"
#include "cubist/nn/networks/pipeline_stack.hpp"
#include "cubist/nn/transformer/token_batch.hpp"
#include "cubist/nn/transformer/transformer.hpp"
#include "cubist/scheme/pipeline.hpp"

namespace cubist::CUBIST_ABI
{

/// @tparam P Pipeline<S>, or DataParallel<Pipeline<S>>
template <PipelineScheme P, class B, RealScalar T>
class Transformer<P, B, T> : public detail::Network<T, AxisMesh<typename P::Axes, B>>
{
  using S = typename P::StageScheme;
  using Network = detail::Network<T, AxisMesh<typename P::Axes, B>>;
  using Logits = cubist::Logits<S, B, T>;
  using Hidden = typename Logits::Input;
  using OfStage = typename Logits::Output;
  using Stage = typename Hidden::Mesh;
  using Stack = detail::PipelineStack<Hidden, T, AxisMesh<typename P::Axes, B>>;
  using Embedding = cubist::Embedding<S, B, T>;
  using AnyLayer = detail::AnyLayer<Hidden, T>;
  using Batch = detail::TokenBatch;

 public:
  using typename Network::Mesh;
  /// Logits, which all stages have.
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  /// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range, or for
  /// more pieces than blocks
  Transformer(const Mesh& mesh, const TransformerConfig& config,
              const TransformerOptions& options = {})
      : Network{mesh, options.seed, options.inference}, config_{config},
        pipeline_{options.pipeline}, context_parallel_{options.context_parallel},
        dropout_{options.dropout, options.seed, 0}, blocks_{mesh,
                                                            cut(mesh, config, options.pipeline),
                                                            "forward of block", "backward of block",
                                                            options.recompute},
        embedding_{first_mesh(),
                   config.vocabulary,
                   config.width,
                   {.seed = options.seed, .gradients = !options.inference}},
        norm_{make_norm(last_mesh(), config, !options.inference)}, logits_{options.gathered,
                                                                           options.method}
  {
    config.check();
    detail::Freezing freezing{options.frozen};
    const std::size_t after = detail::layer_indices * config.layers + 1;
    if (config.learned_positions)
      positions_.emplace(
          first_mesh(), config.positions, config.width,
          EmbeddingOptions{.seed = options.seed, .index = after, .gradients = !options.inference});
    freezing.freeze(embedding_, "embedding.");
    if (positions_) freezing.freeze(*positions_, "positions.");
    if (!config.tied || blocks_.all_pieces() > 1)
      table_.emplace(last_mesh(), config.vocabulary, config.width,
                     EmbeddingOptions{.seed = options.seed,
                                      .index = config.tied ? 0 : after + 1,
                                      .gradients = !options.inference});
    if (table_) freezing.freeze(*table_, config.tied ? "embedding." : "logits.");
    trains_input_ = !embedding_.is_frozen() || (positions_ && !positions_->is_frozen());
    bool all_are_frozen = !trains_input_;
    for (std::size_t i = 0; i < config.layers; ++i)
    {
      const auto& of_stage = blocks_.mesh_of_piece(blocks_.piece_of_layer(i));
      auto& block = blocks_.add(detail::make_block<S, B, T>(of_stage, config, options, i));
      const bool is_frozen = freezing.freeze(block, block_name(i));
      all_are_frozen = all_are_frozen && is_frozen;
      if (all_are_frozen) first_trained_ = i + 1;
    }
    blocks_.set_first_trained(first_trained_);
    freezing.freeze(*norm_, "norm.");
    freezing.require_all_used();
  }

  /// The sizes, as the model was made.
  [[nodiscard]] const TransformerConfig& config() const { return config_; }

  /// The loss of predicting each next token, the same on every rank, and the gradients of all
  /// parameters, multiplied by `scale`. Every rank of the mesh calls it.
  /// @throws ShapeError unless the ids are whole sequences of at least two tokens, ArgumentError
  /// for ids that the vocabulary does not have, for more tokens a sequence than there are
  /// positions, and for a model that was made for inference
  LossValue compute_gradients(std::span<const int> ids, std::size_t sequence, double scale = 1)
  {
    return gradients_of({ids, ids, sequence}, scale);
  }
  /// The loss of predicting the labels, and the gradients of all parameters, multiplied by `scale`.
  /// Ids after a sequence's last label are not read, and tokens after the last label of all
  /// sequences are left out, so padding changes no bit, whatever it is.
  /// @param labels one beside each id, not shifted: the id, or -100 where the loss ignores it
  /// @throws ShapeError, ArgumentError as next_token_loss()
  LossValue compute_gradients(std::span<const int> ids, std::span<const int> labels,
                              std::size_t sequence, double scale = 1)
  {
    return gradients_of(
        padding_.without_padding(this->mesh(), {ids, labels, sequence}, config_.vocabulary), scale);
  }

  /// The loss of predicting each next token, without dropout and gradients.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::size_t sequence)
  {
    return loss_of({ids, ids, sequence});
  }
  /// The loss of predicting the labels, as compute_gradients() takes them, without dropout and
  /// gradients.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::span<const int> labels,
                                std::size_t sequence)
  {
    return loss_of(
        padding_.without_padding(this->mesh(), {ids, labels, sequence}, config_.vocabulary));
  }

  /// The logits of the token after each token, (B S, V), without dropout. All stages have them. The
  /// model owns them, and overwrites them in the next call.
  const Output& predict(std::span<const int> ids, std::size_t sequence)
  {
    return outputs({ids, ids, sequence}, 0, false);
  }
  /// The logits of each sequence's last token, (B, V), without dropout. The first token of each
  /// sequence is at `position`; with a cache, those before it are kept from the calls before.
  const Output& next_logits(std::span<const int> ids, std::size_t sequence,
                            std::size_t position = 0)
  {
    return outputs({ids, ids, sequence}, position, true);
  }

  /// Does not compile: forwards and backwards of micro-batches are interleaved.
  template <class... X>
  void forward(const X&...)
  {
    refuse<X...>();
  }
  /// Does not compile: see forward().
  template <class... X>
  void backward(const X&...)
  {
    refuse<X...>();
  }

  /// Keeps the keys and values of up to `tokens` tokens a sequence in the next calls of
  /// `next_logits`; 0 keeps none.
  void use_cache(std::size_t tokens)
  {
    blocks_.for_each_layer([&](AnyLayer& block) { block.use_cache(tokens); });
  }

  /// @throws ArgumentError for more tokens a sequence than the model has positions, or than a token
  /// of it sees
  void require_positions(std::size_t tokens) const { require_tokens_fit(config_, tokens); }

  /// The parameters of all stages, with the names of Transformer's.
  void append_parameters(Parameters<T, Mesh>& list) override
  {
    const std::size_t first = list.size();
    const auto append = [&](auto& layer, const char* prefix, int stage, int second) {
      Parameters<T, Stage> of_stage;
      layer.append_parameters(of_stage, prefix);
      blocks_.append(list, of_stage, stage, second);
    };
    const int last = blocks_.last_stage();
    if (config_.tied && table_)
      append(blocks_.has_last() ? *table_ : embedding_, "embedding.", 0, last);
    else
      append(embedding_, "embedding.", 0, 0);
    if (positions_) append(*positions_, "positions.", 0, 0);
    for (std::size_t i = 0; i < blocks_.layers(); ++i)
      blocks_.append_parameters(list, i, block_name(i));
    append(*norm_, "norm.", last, last);
    if (!config_.tied) append(*table_, "logits.", last, last);
    for (std::size_t i = first; i < list.size(); ++i)
    {
      const std::string& name = list[i].name;
      list[i].decays = !name.ends_with("bias") && !name.ends_with("norm.weight");
    }
  }

 private:
  /// What a micro-batch keeps before the first block.
  struct InputKept
  {
    std::vector<int> ids;  // the id of each row of the stream
    typename Embedding::Kept embedding;
    std::optional<Hidden> dh;
  };
  /// What the layers after the last block keep.
  struct OutputKept
  {
    std::unique_ptr<detail::AnyKept> norm;
    typename Logits::Kept logits;
    const Hidden* h = nullptr;           // the norm's input
    const Hidden* normalized = nullptr;  // the norm's output
    const OfStage* y = nullptr;
    std::optional<OfStage> dy;
    std::optional<Hidden> last;  // rows of the last tokens
  };

  /// The embedding and the logits of micro-batches.
  class Ends : public detail::PipelineEnds<Hidden, T>
  {
   public:
    using typename detail::PipelineEnds<Hidden, T>::Reducer;

    Ends(Transformer& model, const Batch& batch, detail::MicroBatches cut)
        : batches{cut}, model_{model}, batch_{batch}
    {
      for (std::size_t i = 0; i < batches.count; ++i)
        passes.push_back({.sequence = batch.sequence});
    }

    detail::MicroBatches batches;  // in sequences
    std::vector<Pass> passes;

    [[nodiscard]] Pass pass(std::size_t i) override { return passes[i]; }
    Hidden& fit_input(std::optional<Hidden>& x, std::size_t, std::size_t i) override
    {
      const Pass& p = passes[i];
      const auto& mesh = model_.blocks_.stage_mesh();
      const std::size_t rows = p.cut.is_cut() ? p.cut.rows() : batches.rows_of(i) * p.sequence;
      return fit(x, mesh, {rows, model_.config_.width},
                 {(p.cut.is_cut() ? 1 : p.sequence) * mesh.quantum(), mesh.quantum()});
    }
    [[nodiscard]] const Hidden& input(std::size_t i, std::size_t slot) override
    {
      InputKept& kept = model_.input_kept(slot);
      const Pass& p = passes[i];
      const auto ids = of(batch_.ids, i);
      if (p.cut.is_cut())
        p.cut.arrange(ids, kept.ids, [&](std::size_t b) { return ids[(b + 1) * p.sequence - 1]; });
      else
        kept.ids.assign(ids.begin(), ids.end());
      Hidden& h = model_.embedding_.forward(kept.ids, p, kept.embedding);
      if (model_.positions_) model_.positions_->forward(h, p);
      if (p.training_step) model_.dropout_.apply(h, *p.training_step, p.cut);
      return h;
    }
    void take_output(const Hidden& h, std::size_t i) override
    {
      OutputKept& kept = model_.output_;
      if (!kept.norm) kept.norm = model_.norm_->make_kept();
      kept.h = &rows_of_logits(h, i);
      kept.normalized = &model_.norm_->forward(*kept.h, {}, *kept.norm);
      kept.y = &model_.logits_.forward(*kept.normalized, model_.table(), kept.logits);
      take_logits(*kept.y, i);
    }
    [[nodiscard]] const Hidden& output_gradient(std::size_t, Reducer&) override
    {
      return *model_.output_.h;
    }

   protected:
    /// The rows whose logits are wanted.
    [[nodiscard]] virtual const Hidden& rows_of_logits(const Hidden& h, std::size_t) { return h; }
    virtual void take_logits(const OfStage& y, std::size_t i) = 0;

    /// The tokens of a micro-batch.
    [[nodiscard]] std::span<const int> of(std::span<const int> all, std::size_t i) const
    {
      return all.subspan(batches.first(i) * batch_.sequence, batches.rows_of(i) * batch_.sequence);
    }

    Transformer& model_;
    Batch batch_;
  };

  /// Losses and, in training, gradients.
  class LossEnds final : public Ends
  {
   public:
    using Ends::batches, Ends::passes;
    using typename Ends::Reducer;

    LossEnds(Transformer& model, const Batch& batch, bool trains, double scale)
        : Ends{model, batch, model.micro_batches(batch.sequences(), trains)}, trains_{trains},
          scale_{scale}
    {
      // This is checked even if another rank has the logits, so that errors are the same on every
      // rank.
      all_ = detail::count_labels(detail::checked_next_labels(
          batch.ids, batch.labels, batch.sequence, {batch.ids.size(), model.config_.vocabulary}));
      for (std::size_t i = 0; i < batches.count; ++i)
      {
        if (trains) passes[i] = model.next_pass(batch.sequence);
        passes[i] = model.cut_pass(batches.rows_of(i), passes[i]);
      }
    }

    [[nodiscard]] const Hidden& output_gradient(std::size_t, Reducer& reducer) override
    {
      auto& m = this->model_;
      OutputKept& kept = m.output_;
      // The mean over micro-batches of these is the gradient of the mean over all tokens.
      const auto count = static_cast<double>(means_.back().second * batches.count);
      scale_gradient(*kept.dy, all_ > 0 ? scale_ * count / static_cast<double>(all_) : scale_);
      auto& of_table = m.begin_table(reducer);
      const BackwardPass<T, Stage> pass{Pass{}, reducer};
      const bool passes_blocks = m.first_trained_ < m.config_.layers;
      const Hidden& dx = m.logits_.backward(*kept.normalized, m.table(), *kept.dy,
                                            m.table_gradient(), of_table, kept.logits);
      const Hidden* d = m.norm_->backward(*kept.h, dx, pass, *kept.norm, passes_blocks);
      m.finish_table();
      return d ? *d : *kept.h;
    }
    [[nodiscard]] bool wants_input_gradient() const override { return this->model_.trains_input_; }
    void take_input_gradient(const Hidden& dx, std::size_t i, std::size_t slot,
                             Reducer& reducer) override
    {
      auto& m = this->model_;
      InputKept& kept = m.input_kept(slot);
      const BackwardPass<T, Stage> pass{passes[i], reducer};
      const Hidden* d = &dx;
      if (pass.training_step && m.dropout_.probability() > 0)
      {
        m.dropout_.apply(dx, fit_like(kept.dh, dx), *pass.training_step, pass.cut);
        d = &*kept.dh;
      }
      if (m.positions_) m.positions_->backward(*d, pass);
      if (!m.config_.tied || !m.table_)
        m.embedding_.backward(kept.ids, *d, pass, kept.embedding, m.config_.tied);
      else
      {
        const BackwardPass<T, Stage> of_table{passes[i], m.begin_table(reducer)};
        m.embedding_.backward(kept.ids, *d, of_table, kept.embedding);
        m.finish_table();
      }
    }

    /// The mean over all tokens that are predicted, on the last stage.
    [[nodiscard]] double mean() const
    {
      double sum = 0;
      for (const auto& [mean, count] : means_)
        if (count > 0) sum += mean * static_cast<double>(count);
      return detail::mean_of<typename Mesh::Engine>(sum, static_cast<double>(all_));
    }

   private:
    void take_logits(const OfStage& y, std::size_t i) override
    {
      auto& dy = this->model_.output_.dy;
      OfStage* const gradient = trains_ ? &fit_like(dy, y) : nullptr;
      const auto labels = this->of(this->batch_.labels, i);
      means_.emplace_back(detail::cut_next_token_loss<T>(y, this->of(this->batch_.ids, i), labels,
                                                         this->batch_.sequence, passes[i].cut,
                                                         gradient),
                          count_predicted(labels, this->batch_.sequence));
    }

    bool trains_;
    double scale_;
    std::size_t all_ = 0;  // tokens that are predicted
    std::vector<std::pair<LossValue, std::size_t>> means_;
  };

  /// Logits of all tokens, or of the last one of each sequence.
  class OutputEnds final : public Ends
  {
   public:
    OutputEnds(Transformer& model, const Batch& batch, std::size_t position, bool last_only)
        : Ends{model, batch, {batch.sequences(), 1}}, last_only_{last_only}
    {
      this->passes.front().position = position;
    }

   private:
    [[nodiscard]] const Hidden& rows_of_logits(const Hidden& h, std::size_t) override
    {
      if (!last_only_) return h;
      const Stage& mesh = h.mesh();
      const std::size_t sequence = this->batch_.sequence;
      Hidden& last = fit(this->model_.output_.last, mesh, {this->batch_.sequences(), h.cols()},
                         mesh.quantum());
      for (std::size_t b = 0; b < last.valid().rows(); ++b)
        mesh.engine().copy(h.valid().block((b + 1) * sequence - 1, 0, {1, h.valid().cols()}),
                           last.valid().block(b, 0, {1, h.valid().cols()}));
      return last;
    }
    void take_logits(const OfStage& y, std::size_t) override
    {
      auto& all = *this->model_.outputs_;
      all.mesh().engine().copy(y.padded(), all.padded());
    }

    bool last_only_;
  };

  /// The first layer of each piece.
  [[nodiscard]] static std::vector<std::size_t>
  cut(const Mesh& mesh, const TransformerConfig& config, const PipelineOptions& options)
  {
    const std::size_t size = config.head_size == 0
                                 ? config.width / std::max<std::size_t>(1, config.heads)
                                 : config.head_size;
    const std::size_t keys = config.key_value_heads == 0 ? config.heads : config.key_value_heads;
    const std::size_t inner = config.feed_forward == 0 ? 4 * config.width : config.feed_forward;
    const auto costs = detail::block_costs(config.layers, 2 * size * (config.heads + keys),
                                           (config.gated ? 3 : 2) * inner, config.vocabulary);
    return detail::cut_in_pieces(costs, static_cast<std::size_t>(stages_of(mesh)), options);
  }
  [[nodiscard]] static std::unique_ptr<AnyLayer>
  make_norm(const Stage& mesh, const TransformerConfig& config, bool gradients)
  {
    const auto make = [&]<class Norm>(std::type_identity<Norm>) -> std::unique_ptr<AnyLayer> {
      return std::make_unique<detail::LayerOf<Hidden, Norm>>(
          Norm{mesh, config.width, {config.epsilon, gradients}});
    };
    if (config.norm == Norm::layer_norm) return make(std::type_identity<LayerNorm<S, B, T>>{});
    return make(std::type_identity<RmsNorm<S, B, T>>{});
  }
  [[nodiscard]] static std::string block_name(std::size_t i)
  {
    return "layers." + std::to_string(i) + ".";
  }
  template <class... X>
  static void refuse()
  {
    static_assert(sizeof...(X) > 1000,
                  "a transformer in stages interleaves the forwards and backwards of "
                  "micro-batches, so it has neither alone; call compute_gradients(ids, length) for "
                  "a step, and predict(ids, length) for logits");
  }
  static void require_tokens_fit(const TransformerConfig& config, std::size_t tokens)
  {
    require<ArgumentError>(
        config.window == 0 || tokens <= config.window, "got sequences of ", tokens,
        " tokens for a model with a sliding window of ", config.window,
        " tokens, but cubist computes attention to all tokens, so results would differ from the "
        "model's; use sequences that are no longer than the window");
    require<ArgumentError>(tokens <= config.positions, "got sequences of ", tokens,
                           " tokens for a model of ", config.positions,
                           " positions, so the last tokens would have none; use shorter sequences");
  }

  [[nodiscard]] const Stage& first_mesh() const { return blocks_.mesh_of_piece(0); }
  [[nodiscard]] const Stage& last_mesh() const
  {
    return blocks_.mesh_of_piece(blocks_.all_pieces() - 1);
  }
  [[nodiscard]] auto& table() { return table_ ? table_->table() : embedding_.table(); }
  [[nodiscard]] auto& table_gradient()
  {
    return table_ ? table_->table_gradient() : embedding_.table_gradient();
  }
  [[nodiscard]] detail::MicroBatches micro_batches(std::size_t sequences, bool trains) const
  {
    const auto stages = static_cast<std::size_t>(stages_of(this->mesh_));
    return trains ? detail::cut_step(sequences, "sequences", stages, pipeline_)
                  : detail::cut_evaluation(sequences, stages, pipeline_);
  }
  [[nodiscard]] InputKept& input_kept(std::size_t slot)
  {
    while (inputs_.size() <= slot) inputs_.push_back(std::make_unique<InputKept>());
    return *inputs_[slot];
  }
  /// The pass with the cut of these sequences.
  [[nodiscard]] Pass cut_pass(std::size_t sequences, Pass pass) const
  {
    if (context_parallel_ == 1 || pass.sequence == 0) return pass;
    const auto& mesh = blocks_.stage_mesh();
    pass.cut =
        choose_cut(sequences, pass.sequence,
                   row_parts<typename S::Output, typename S::Axes>(mesh.extents(), mesh.quantum()),
                   context_parallel_);
    return pass;
  }

  LossValue gradients_of(const Batch& batch, double scale)
  {
    this->require_training("compute_gradients");
    LossEnds ends{*this, batch, true, scale};
    require_positions(batch.sequence);
    const std::size_t count = ends.batches.count;
    if (!table_sums_ || table_count_ != count)
      table_sums_ = std::make_unique<TableSums>(blocks_.stage_mesh(), table_count_ = count);
    table_sums_->sums.restart();
    auto& reducer = this->begin_gradients();
    blocks_.compute_gradients(ends, count, reducer);
    if (shares_table()) sum_table(reducer);
    reducer.finish();
    return LossValue{loss_of_last(ends)};
  }
  [[nodiscard]] double loss_of(const Batch& batch)
  {
    LossEnds ends{*this, batch, false, 1};
    require_positions(batch.sequence);
    blocks_.evaluate(ends, ends.batches.count);
    return loss_of_last(ends);
  }
  [[nodiscard]] double loss_of_last(const LossEnds& ends)
  {
    std::array<double, 1> loss{ends.mean()};
    blocks_.broadcast_from_last(std::span<double>{loss});
    return loss[0];
  }
  const Output& outputs(const Batch& batch, std::size_t position, bool last_only)
  {
    OutputEnds ends{*this, batch, position, last_only};
    require_positions(position + batch.sequence);
    const std::size_t quantum = this->mesh_.quantum();
    Output& all = fit(outputs_, this->mesh_,
                      {last_only ? batch.sequences() : batch.ids.size(), config_.vocabulary},
                      {last_only ? quantum : batch.sequence * quantum, table().quanta().rows});
    blocks_.evaluate(ends, 1);
    blocks_.links().stages().broadcast(all.padded().elements(), blocks_.last_stage());
    return all;
  }

  // The gradient of a tied table.

  /// Adds up this stage's part of the gradient over the micro-batches.
  struct TableSums
  {
    TableSums(const Stage& mesh, std::size_t count) : sums{mesh, count, immediate} {}

    ImmediateSums<T, Stage> immediate;
    detail::GradientAccumulator<T, Stage> sums;
  };

  /// Whether this rank has one of two tables that are one parameter, which is trained.
  [[nodiscard]] bool shares_table() const
  {
    return config_.tied && table_ && !embedding_.is_frozen() &&
           (blocks_.has_first() || blocks_.has_last());
  }
  /// What takes the table's gradient of a backward; finish_table() completes it.
  [[nodiscard]] GradientReducer<T, Stage>& begin_table(GradientReducer<T, Stage>& of_piece)
  {
    if (!config_.tied) return of_piece;
    if (!table_)  // the embedding adds its part afterwards
      return table_sums_->immediate;
    table_sums_->sums.begin();
    return table_sums_->sums;
  }
  void finish_table()
  {
    if (config_.tied && table_) table_sums_->sums.finish();
  }
  /// Exchanges the two parts of the gradient, which are complete on the ranks of their stages.
  void sum_table(GradientReducer<T, Mesh>& reducer)
  {
    auto& mine = blocks_.has_last() ? table_->table_gradient() : embedding_.table_gradient();
    const std::span<T> elements = mine.padded().elements();
    if (other_part_.size() < elements.size()) other_part_ = Buffer(elements.size());
    const MatrixView<T> other{other_part_.data(), mine.padded().shape()};
    auto& stages = blocks_.links().stages();
    const int peer = blocks_.has_last() ? 0 : blocks_.last_stage();
    auto received = stages.async_receive(other.elements(), peer);
    auto sent = stages.async_send(std::span<const T>{elements}, peer);
    received.wait(), sent.wait();
    // A sum of two numbers has the same bits in either order.
    this->mesh_.engine().for_each(detail::Add{}, mine.padded(), MatrixView<const T>{other});
    reducer.reduce(mine.padded(), nullptr);
  }

  using Buffer = typename Mesh::Engine::template Buffer<T>;

  TransformerConfig config_;
  PipelineOptions pipeline_;
  std::size_t context_parallel_;
  Dropout dropout_;  // the dropout of the embedding
  Stack blocks_;
  Embedding embedding_;
  std::optional<PositionEmbedding<S, B, T>> positions_;
  std::unique_ptr<AnyLayer> norm_;
  std::optional<Embedding> table_;  // of the logits, if it is not the embedding's or on its stage
  Logits logits_;
  bool trains_input_ = true;       // the embedding or the positions
  std::size_t first_trained_ = 0;  // block; those before it, and the input, are frozen
  std::vector<std::unique_ptr<InputKept>> inputs_;  // the inputs of slots
  OutputKept output_;
  std::unique_ptr<TableSums> table_sums_;
  std::size_t table_count_ = 0;  // micro-batches of table_sums_
  Buffer other_part_ = Buffer(0);
  std::optional<Output> outputs_;
  detail::PaddingRemover padding_;
};

}  // namespace cubist::CUBIST_ABI
