// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A transformer that predicts the next token, of GPT-2's or Llama's kind, on any scheme and
// backend.
//
//   ids: B sequences of S tokens, token (b, s) at b S + s, the same on every rank    M = B S
//   H (M, d) S::Input    logits (M, V) S::Output
//
//   H = E(ids, :), plus the vectors of the positions if these are learned
//   H = block(H) for each layer                         transformer_block.hpp
//   logits = norm(H) E^T, or with a table of their own
//
// Rows are padded to whole sequences, and heads are whole, so that a rank has all that attention
// reads. The stream of H is S::Input everywhere.
//
// Words: those of the layers; plan/transformer_cost.hpp has their sum. With labels of one's own,
// 2 (P-1)/P of a number more.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Touvron et
// al., "LLaMA", arXiv 2302.13971; the cutting: Xu et al., "Optimus", arXiv 2104.05343, section 3.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/gradient_buckets.hpp"
#include "cubist/dist/staging.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layers/dropout.hpp"
#include "cubist/nn/layers/embedding.hpp"
#include "cubist/nn/layers/layer_norm.hpp"
#include "cubist/nn/layers/position_embedding.hpp"
#include "cubist/nn/layers/rms_norm.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/logits.hpp"
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <SchemeType S, class B, RealScalar T>
class Transformer : public detail::Network<Transformer<S, B, T>, T, AxisMesh<typename S::Axes, B>>
{
  using Network = detail::Network<Transformer, T, AxisMesh<typename S::Axes, B>>;

 public:
  using typename Network::Mesh;
  /// The layer that computes logits.
  using Logits = cubist::Logits<S, B, T>;
  /// The input of the logits: rows of tokens, columns of features.
  using Hidden = typename Logits::Input;
  using Output = typename Logits::Output;

  /// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
  Transformer(const Mesh& mesh, const TransformerConfig& config,
              const TransformerOptions& options = {})
      : Network{mesh, options.seed}, config_{config}, is_inference_{options.inference},
        embedding_{mesh,
                   config.vocabulary,
                   config.width,
                   {.seed = options.seed, .gradients = !options.inference}},
        dropout_{options.dropout, options.seed, 0}, blocks_{"forward of block", "backward of block",
                                                            options.recompute},
        norm_{make_norm(mesh, config, !options.inference)},
        logits_{options.gathered, options.method}, table_sums_{mesh, {.bytes = 0}}
  {
    config.check();
    if (options.inference) this->eval();
    detail::Freezing freezing{options.frozen};
    const std::size_t after = detail::layer_indices * config.layers + 1;
    if (config.learned_positions)
      positions_.emplace(
          mesh, config.positions, config.width,
          EmbeddingOptions{.seed = options.seed, .index = after, .gradients = !options.inference});
    freezing.freeze(embedding_, "embedding.");
    if (positions_) freezing.freeze(*positions_, "positions.");
    if (!config.tied)
      table_.emplace(mesh, config.vocabulary, config.width,
                     EmbeddingOptions{.seed = options.seed,
                                      .index = after + 1,
                                      .gradients = !options.inference});
    if (table_) freezing.freeze(*table_, "logits.");
    trains_input_ = !embedding_.is_frozen() || (positions_ && !positions_->is_frozen());
    bool all_are_frozen = !trains_input_;
    for (std::size_t i = 0; i < config.layers; ++i)
    {
      blocks_.add(detail::make_block<S, B, T>(mesh, config, options, i));
      const bool is_frozen = freezing.freeze(*blocks_.layers().back(), block_name(i));
      all_are_frozen = all_are_frozen && is_frozen;
      if (all_are_frozen) first_trained_ = i + 1;
    }
    freezing.freeze(*norm_, "norm.");
    freezing.require_all_used();
  }

  /// The sizes, as the model was made.
  [[nodiscard]] const TransformerConfig& config() const { return config_; }

  /// What a forward leaves for its backward.
  class Kept
  {
   public:
    /// Whether a forward has succeeded, and no backward has followed it.
    [[nodiscard]] bool awaits_backward() const { return blocks_.awaits_backward(); }

   private:
    friend Transformer;

    std::vector<int> ids_;
    typename cubist::Embedding<S, B, T>::Kept embedding_;
    typename detail::LayerStack<Hidden, detail::AnyLayer<Hidden, T>>::Kept blocks_;
    std::unique_ptr<detail::AnyKept> norm_;
    typename Logits::Kept logits_;
    const Hidden* h_ = nullptr;           // the norm's input
    const Hidden* normalized_ = nullptr;  // the norm's output
    std::optional<Hidden> dh_;
    std::optional<Hidden> last_;  // rows of the last tokens
  };

  /// The logits of each token's next one, which the model owns, and overwrites in the next
  /// `forward`.
  /// @throws ShapeError unless the ids are whole sequences, ArgumentError for ids that the
  /// vocabulary does not have, and for more tokens a sequence than there are positions
  const Output& forward(std::span<const int> ids, std::size_t sequence)
  {
    return forward(ids, sequence, kept_.of_forward());
  }
  /// The logits, which `kept` has: several forwards may wait for their backwards.
  const Output& forward(std::span<const int> ids, std::size_t sequence, Kept& kept)
  {
    const Pass pass = this->next_pass(sequence);
    kept.ids_.assign(ids.begin(), ids.end());
    return logits(run(ids, pass, kept, !is_inference_), kept);
  }

  /// The gradients of all parameters, for the gradient of the last `forward`'s logits.
  /// @throws ShapeError, MeshError for a gradient that is not like the logits; ArgumentError
  /// without a forward
  void backward(const Output& d_logits) { backward(d_logits, kept_.of_forward()); }
  /// The gradients of all parameters, for the forward that `kept` is of.
  void backward(const Output& d_logits, Kept& kept)
  {
    require_training();
    kept.blocks_.require_forward();
    auto& reducer = this->begin_gradients();
    const BackwardPass<T, Mesh> pass{kept.blocks_.pass(), reducer};
    // To a table that is also the embedding's, the embedding adds its part of the gradient, so the
    // logits' part is complete before.
    table_sums_.begin();
    auto& of_table = config_.tied ? table_sums_ : reducer;
    const bool passes_blocks = first_trained_ < config_.layers;
    const Hidden* d = &logits_.backward(*kept.normalized_, table(), d_logits, table_gradient(),
                                        of_table, kept.logits_);
    d = norm_->backward(*kept.h_, *d, pass, *kept.norm_, passes_blocks);
    d = blocks_.backward(d ? *d : *kept.h_, reducer, kept.blocks_, trains_input_, first_trained_);
    if (trains_input_)
    {
      if (pass.training_step && dropout_.probability() > 0)
      {
        dropout_.apply(*d, fit_like(kept.dh_, *d), *pass.training_step);
        d = &*kept.dh_;
      }
      if (positions_) positions_->backward(*d, pass);
      if (config_.tied) table_sums_.finish();
      embedding_.backward(kept.ids_, *d, pass, kept.embedding_, config_.tied);
    }
    reducer.finish();
  }

  /// The loss of predicting each next token, and the gradients of all parameters, multiplied by
  /// `scale`: forward, loss and backward.
  LossValue compute_gradients(std::span<const int> ids, std::size_t sequence, double scale = 1)
  {
    return gradients_of({ids, ids, sequence}, scale);
  }
  /// The loss of predicting the labels, and the gradients of all parameters, multiplied by `scale`.
  /// Tokens behind the last label of all sequences are left out, so padding there changes no bit.
  /// @param labels one beside each id, not shifted: the id, or -100 where the loss ignores it
  /// @throws ShapeError, ArgumentError as next_token_loss()
  LossValue compute_gradients(std::span<const int> ids, std::span<const int> labels,
                              std::size_t sequence, double scale = 1)
  {
    return gradients_of(without_padding({ids, labels, sequence}), scale);
  }

  /// The loss of predicting each next token, without dropout and gradients. A forward that waits
  /// for its backward is not disturbed.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::size_t sequence)
  {
    return loss_of({ids, ids, sequence});
  }
  /// The loss of predicting the labels, as compute_gradients() takes them, without dropout and
  /// gradients.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::span<const int> labels,
                                std::size_t sequence)
  {
    return loss_of(without_padding({ids, labels, sequence}));
  }

  /// The logits of each sequence's last token, (B, V), without dropout. The first token of each
  /// sequence is at `position`; with a cache, those before it are kept from the calls before. A
  /// forward that waits for its backward is not disturbed.
  const Output& next_logits(std::span<const int> ids, std::size_t sequence,
                            std::size_t position = 0)
  {
    Kept& kept = kept_.for_evaluation();
    const Hidden& h =
        run(ids, {.training_step = {}, .sequence = sequence, .position = position}, kept, false);
    const Mesh& mesh = this->mesh();
    Hidden& last = fit(kept.last_, mesh, {ids.size() / sequence, config_.width}, mesh.quantum());
    const auto from = h.valid();
    for (std::size_t b = 0; b < last.valid().rows(); ++b)
      mesh.engine().copy(from.block((b + 1) * sequence - 1, 0, {1, from.cols()}),
                         last.valid().block(b, 0, {1, from.cols()}));
    return logits(last, kept);
  }

  /// Keeps the keys and values of up to `tokens` tokens a sequence in the next calls of
  /// `next_logits`; 0 keeps none.
  void use_cache(std::size_t tokens)
  {
    for (auto& block : blocks_.layers()) block->use_cache(tokens);
  }

  /// @throws ArgumentError for more tokens a sequence than the model has positions, or than a token
  /// of it sees
  void require_positions(std::size_t tokens) const
  {
    require<ArgumentError>(config_.window == 0 || tokens <= config_.window, "got sequences of ",
                           tokens,
                           " tokens for a model with a sliding window "
                           "of ",
                           config_.window,
                           ", within which each token sees others, and cubist computes attention "
                           "to all of them; use shorter sequences");
    require<ArgumentError>(tokens <= config_.positions, "got sequences of ", tokens,
                           " tokens for a model of ", config_.positions,
                           " positions, which was not made for them; use shorter ones");
  }

  /// embedding.weight, positions.weight, layers.0.attention_norm.weight, …, norm.weight and, if it
  /// is not tied, logits.weight; AdamW does not decay biases and norms
  void append_parameters(Parameters<T, Mesh>& list)
  {
    const std::size_t first = list.size();
    embedding_.append_parameters(list, "embedding.");
    if (positions_) positions_->append_parameters(list, "positions.");
    const auto& blocks = blocks_.layers();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i]->append_parameters(list, block_name(i));
    norm_->append_parameters(list, "norm.");
    if (table_) table_->append_parameters(list, "logits.");
    for (std::size_t i = first; i < list.size(); ++i)
    {
      const std::string& name = list[i].name;
      list[i].decays = !name.ends_with("bias") && !name.ends_with("norm.weight");
    }
  }

 private:
  using Embedding = cubist::Embedding<S, B, T>;
  using AnyLayer = detail::AnyLayer<Hidden, T>;

  [[nodiscard]] static std::unique_ptr<AnyLayer>
  make_norm(const Mesh& mesh, const TransformerConfig& config, bool gradients)
  {
    const auto make = [&]<class Norm>(std::type_identity<Norm>) -> std::unique_ptr<AnyLayer> {
      return std::make_unique<detail::LayerOf<Hidden, Norm>>(
          Norm{mesh, config.width, {config.epsilon, gradients}});
    };
    if (config.norm == Norm::layer_norm) return make(std::type_identity<LayerNorm<S, B, T>>{});
    return make(std::type_identity<RmsNorm<S, B, T>>{});
  }

  /// Sequences, one after the other, and their labels.
  struct Batch
  {
    std::span<const int> ids, labels;
    std::size_t sequence;
  };

  LossValue gradients_of(const Batch& batch, double scale)
  {
    const Output& y = forward(batch.ids, batch.sequence);
    Output& dy = fit_like(d_logits_, y);
    LossValue loss = next_token_loss(y, batch.ids, batch.labels, batch.sequence, dy);
    scale_gradient(dy, scale);
    backward(dy);
    return loss;
  }
  [[nodiscard]] double loss_of(const Batch& batch)
  {
    Kept& kept = kept_.for_evaluation();
    const Pass pass{.training_step = {}, .sequence = batch.sequence, .position = 0};
    const Hidden& h = run(batch.ids, pass, kept, false);
    return next_token_loss(logits(h, kept), batch.ids, batch.labels, batch.sequence);
  }

  /// The sequences up to the last label of all: attention is causal, so what is behind changes no
  /// loss. Ranks agree on the length, so that labels which differ between them are an error of the
  /// loss.
  [[nodiscard]] Batch without_padding(const Batch& batch)
  {
    const auto& [ids, labels, sequence] = batch;
    const bool fits = sequence > 0 && ids.size() % sequence == 0 && labels.size() == ids.size();
    const auto& mesh = this->mesh();
    if (!fits || !mesh.active()) return batch;  // which the loss refuses
    std::array<std::uint64_t, 1> most{detail::tokens_up_to_labels(labels, sequence)};
    with_staging_buffer(mesh.engine(), std::span<std::uint64_t>{most},
                        [&](auto one) { mesh.world().all_reduce(one, ReduceOp::max); });
    const std::size_t needed = std::min<std::size_t>(most[0], sequence);
    if (needed == sequence) return batch;
    for (auto [from, to] : {std::pair{ids, &ids_}, std::pair{labels, &labels_}})
    {
      to->clear();
      for (std::size_t first = 0; first < from.size(); first += sequence)
        to->insert(to->end(), from.begin() + static_cast<std::ptrdiff_t>(first),
                   from.begin() + static_cast<std::ptrdiff_t>(first + needed));
    }
    return {ids_, labels_, needed};
  }

  [[nodiscard]] static std::string block_name(std::size_t i)
  {
    return "layers." + std::to_string(i) + ".";
  }

  [[nodiscard]] auto& table() { return table_ ? table_->table() : embedding_.table(); }
  [[nodiscard]] auto& table_gradient()
  {
    return table_ ? table_->table_gradient() : embedding_.table_gradient();
  }

  /// @throws ArgumentError for a model that was made for inference
  void require_training() const
  {
    require<ArgumentError>(!is_inference_,
                           "got backward for a model that was made for inference, which has no "
                           "memory for gradients; make it without `.inference = true`");
  }

  /// H after all blocks.
  /// @param keeps whether a backward may follow
  const Hidden& run(std::span<const int> ids, const Pass& pass, Kept& kept, bool keeps)
  {
    kept.blocks_.discard();
    require<ShapeError>(pass.sequence > 0 && !ids.empty() && ids.size() % pass.sequence == 0,
                        "got ", ids.size(), " tokens in sequences of ", pass.sequence,
                        ", which they do not fill; give whole sequences");
    require_positions(pass.position + pass.sequence);
    Hidden& embedded = embedding_.forward(ids, pass, kept.embedding_);
    if (positions_) positions_->forward(embedded, pass);
    if (pass.training_step) dropout_.apply(embedded, *pass.training_step);
    kept.h_ = keeps ? &blocks_.forward(embedded, pass, kept.blocks_)
                    : &blocks_.evaluate(embedded, pass, kept.blocks_);
    return *kept.h_;
  }
  /// The logits of H's rows.
  const Output& logits(const Hidden& h, Kept& kept)
  {
    if (!kept.norm_) kept.norm_ = norm_->make_kept();
    kept.normalized_ = &norm_->forward(h, {}, *kept.norm_);
    return logits_.forward(*kept.normalized_, table(), kept.logits_);
  }

  TransformerConfig config_;
  bool is_inference_;
  Embedding embedding_;
  std::optional<PositionEmbedding<S, B, T>> positions_;
  Dropout dropout_;  // of the embedding
  detail::LayerStack<Hidden, AnyLayer> blocks_;
  std::unique_ptr<AnyLayer> norm_;
  std::optional<Embedding> table_;  // of the logits, if it is not the embedding's
  Logits logits_;
  GradientBuckets<T, Mesh> table_sums_;  // of the logits' part of a tied table's gradient
  bool trains_input_ = true;             // the embedding or the positions
  std::size_t first_trained_ = 0;        // block; those before it, and the input, are frozen
  detail::KeptOfNetwork<Kept> kept_;
  std::optional<Output> d_logits_;
  std::vector<int> ids_, labels_;  // without padding
};

}  // namespace cubist::CUBIST_ABI
