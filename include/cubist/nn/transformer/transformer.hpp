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
// If several ranks share a sequence (TransformerOptions::context_parallel), the rows of H are those
// of a SequenceCut (dist/sequence_cut.hpp), and keys and values go around in a ring. `forward` and
// `backward` have rows of tokens all the same: H, (M, d), and its gradient are brought in their
// order. The loss of `compute_gradients` and of `evaluate` is computed from the rows in this order,
// and sends no more than with whole sequences.
//
// Words: those of the layers; plan/transformer_cost.hpp has their sum. With labels of one's own,
// 2 (P-1)/P of a number more.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Touvron et
// al., "LLaMA", arXiv 2302.13971; the cutting: Xu et al., "Optimus", arXiv 2104.05343, section 3.

#include <algorithm>
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
#include "cubist/dist/sequence_cut.hpp"
#include "cubist/nn/functions/ring_attention.hpp"
#include "cubist/nn/functions/row_exchange.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layers/dropout.hpp"
#include "cubist/nn/layers/embedding.hpp"
#include "cubist/nn/layers/layer_norm.hpp"
#include "cubist/nn/layers/position_embedding.hpp"
#include "cubist/nn/layers/rms_norm.hpp"
#include "cubist/nn/losses/cut_loss.hpp"
#include "cubist/nn/losses/loss.hpp"
#include "cubist/nn/losses/next_token_loss.hpp"
#include "cubist/nn/networks/any_layer.hpp"
#include "cubist/nn/networks/layer_stack.hpp"
#include "cubist/nn/networks/network.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/parameter_names.hpp"
#include "cubist/nn/transformer/any_transformer.hpp"
#include "cubist/nn/transformer/logits.hpp"
#include "cubist/nn/transformer/token_batch.hpp"
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/nn/transformer/transformer_config.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

template <SchemeType S, class B, RealScalar T>
class TransformerNetwork final : public AnyTransformer<S, B, T>
{
  using Any = AnyTransformer<S, B, T>;

 public:
  using typename Any::Ids;
  using typename Any::Mesh;
  using typename Any::Output;
  /// The layer that computes logits.
  using Logits = cubist::Logits<S, B, T>;
  /// The input of the logits: rows of tokens, columns of features.
  using Hidden = typename Logits::Input;

  /// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
  TransformerNetwork(const Mesh& mesh, const TransformerConfig& config,
                     const TransformerOptions& options)
      : Any{mesh, options.seed, options.inference}, config_{config},
        embedding_{mesh,
                   config.vocabulary,
                   config.width,
                   {.seed = options.seed, .gradients = !options.inference}},
        context_parallel_{options.context_parallel}, dropout_{options.dropout, options.seed, 0},
        blocks_{"forward of block", "backward of block", options.recompute},
        norm_{make_norm(mesh, config, !options.inference)},
        logits_{options.gathered, options.method}, table_sums_{mesh, {.bytes = 0}}
  {
    config.check();
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

  [[nodiscard]] const TransformerConfig& config() const override { return config_; }

  /// What a forward leaves for its backward.
  class Kept;

 private:
  /// Where the tokens are in a matrix whose rows are in another order.
  struct TokenOrder
  {
    TokenOrder(const SequenceCut& c, const Mesh& mesh) : cut{c}, exchange{mesh} {}

    SequenceCut cut;
    detail::RowExchange<T, Mesh> exchange;
    std::vector<int> rows = {};  // the row of each token
  };

 public:
  class Kept final : public NetworkKept
  {
   public:
    [[nodiscard]] bool awaits_backward() const override { return blocks_.awaits_backward(); }

   private:
    friend TransformerNetwork;

    std::vector<int> ids_;  // the id of each row of the stream
    SequenceCut cut_;
    typename cubist::Embedding<S, B, T>::Kept embedding_;
    typename detail::LayerStack<Hidden, detail::AnyLayer<Hidden, T>>::Kept blocks_;
    std::unique_ptr<detail::AnyKept> norm_;
    typename Logits::Kept logits_;
    const Hidden* h_ = nullptr;           // the norm's input
    const Hidden* normalized_ = nullptr;  // the norm's output
    std::optional<Hidden> dh_;
    std::optional<Hidden> last_;  // rows of the last tokens
    // With a cut, where logits are those of tokens in their order:
    bool is_ordered_ = false;
    std::optional<TokenOrder> order_;
    std::optional<Hidden> ordered_;
  };

  [[nodiscard]] std::unique_ptr<NetworkKept> make_kept() const override
  {
    return std::make_unique<Kept>();
  }

  const Output& forward(Ids ids, std::size_t sequence, NetworkKept* any) override
  {
    Kept& kept = of(any);
    const Hidden& h =
        run(ids, cut_pass(ids, this->next_pass(sequence)), kept, !this->is_inference_);
    return logits(kept.cut_.is_cut() ? order(h, kept) : h, kept);
  }

  void backward(const Output& d_logits, NetworkKept* any) override
  {
    Kept& kept = of(any);
    this->require_training("backward");
    kept.blocks_.require_forward();
    auto& reducer = this->begin_gradients();
    const BackwardPass<T, Mesh> pass{kept.blocks_.pass(), reducer};
    // If the table is also the embedding's, the embedding adds its part of the gradient, so the
    // logits' part must be complete before.
    table_sums_.begin();
    auto& of_table = config_.tied ? table_sums_ : reducer;
    const bool passes_blocks = first_trained_ < config_.layers;
    const Hidden* d = &logits_.backward(*kept.normalized_, table(), d_logits, table_gradient(),
                                        of_table, kept.logits_);
    d = norm_->backward(*kept.h_, *d, pass, *kept.norm_, passes_blocks);
    if (kept.is_ordered_ && d) d = &order_back(*d, kept);
    d = blocks_.backward(d ? *d : *kept.h_, reducer, kept.blocks_, trains_input_, first_trained_);
    if (trains_input_)
    {
      if (pass.training_step && dropout_.probability() > 0)
      {
        dropout_.apply(*d, fit_like(kept.dh_, *d), *pass.training_step, pass.cut);
        d = &*kept.dh_;
      }
      if (positions_) positions_->backward(*d, pass);
      if (config_.tied) table_sums_.finish();
      embedding_.backward(kept.ids_, *d, pass, kept.embedding_, config_.tied);
    }
    reducer.finish();
  }

  LossValue compute_gradients(Ids ids, std::optional<Ids> labels, std::size_t sequence,
                              double scale) override
  {
    const TokenBatch batch = batch_of(ids, labels, sequence);
    Kept& kept = kept_.of_forward();
    const Pass pass = cut_pass(batch.ids, this->next_pass(batch.sequence));
    const Output& y = logits(run(batch.ids, pass, kept, !this->is_inference_), kept);
    Output& dy = fit_like(d_logits_, y);
    LossValue loss =
        detail::cut_next_token_loss(y, batch.ids, batch.labels, batch.sequence, kept.cut_, &dy);
    scale_gradient(dy, scale);
    backward(dy, &kept);
    return loss;
  }

  [[nodiscard]] double evaluate(Ids ids, std::optional<Ids> labels, std::size_t sequence) override
  {
    const TokenBatch batch = batch_of(ids, labels, sequence);
    Kept& kept = kept_.for_evaluation();
    const Pass pass =
        cut_pass(batch.ids, {.training_step = {}, .sequence = batch.sequence, .position = 0});
    const Output& y = logits(run(batch.ids, pass, kept, false), kept);
    return detail::cut_next_token_loss<T>(y, batch.ids, batch.labels, batch.sequence, kept.cut_,
                                          static_cast<Output*>(nullptr));
  }

  const Output& next_logits(Ids ids, std::size_t sequence, std::size_t position) override
  {
    Kept& kept = kept_.for_evaluation();
    Pass pass{.training_step = {}, .sequence = sequence, .position = position};
    // Ranks do not share the few tokens that follow a prompt. The cache of a short prompt is small,
    // so they do not share it unless they are asked to.
    const bool shares = !caches_ || context_parallel_ > 1 || sequence >= shared_cache_tokens;
    if (position == 0 && shares) pass = cut_pass(ids, pass);
    const Hidden& h = run(ids, pass, kept, false);
    return logits(last_rows(h, pass, ids.size() / sequence, kept), kept);
  }

  void use_cache(std::size_t tokens) override
  {
    caches_ = tokens > 0;
    for (auto& block : blocks_.layers()) block->use_cache(tokens);
  }

  void require_positions(std::size_t tokens) const override
  {
    require<ArgumentError>(
        config_.window == 0 || tokens <= config_.window, "got sequences of ", tokens,
        " tokens for a model with a sliding window "
        "of ",
        config_.window,
        " tokens, but cubist computes attention to all tokens, so results would differ from the "
        "model's; use sequences that are no longer than the window");
    require<ArgumentError>(tokens <= config_.positions, "got sequences of ", tokens,
                           " tokens for a model of ", config_.positions,
                           " positions, so the last tokens would have none; use shorter sequences");
  }

  /// embedding.weight, positions.weight, layers.0.attention_norm.weight, …, norm.weight and, if it
  /// is not tied, logits.weight; AdamW does not decay biases and norms
  void append_parameters(Parameters<T, Mesh>& list) override
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
  /// The tokens of a prompt whose cache ranks share without being asked to.
  static constexpr std::size_t shared_cache_tokens = 1024;

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

  Kept& of(NetworkKept* kept) { return kept ? static_cast<Kept&>(*kept) : kept_.of_forward(); }

  [[nodiscard]] TokenBatch batch_of(Ids ids, const std::optional<Ids>& labels, std::size_t sequence)
  {
    if (!labels) return {ids, ids, sequence};
    return padding_.without_padding(this->mesh(), {ids, *labels, sequence}, config_.vocabulary);
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

  /// H after all blocks.
  /// @param keeps whether a backward may follow
  const Hidden& run(std::span<const int> ids, const Pass& pass, Kept& kept, bool keeps)
  {
    kept.blocks_.discard();
    require<ShapeError>(pass.sequence > 0 && !ids.empty() && ids.size() % pass.sequence == 0,
                        "got ", ids.size(), " tokens in sequences of ", pass.sequence,
                        ", so the last one is incomplete; give whole sequences");
    require_positions(pass.position + pass.sequence);
    kept.cut_ = pass.cut;
    kept.is_ordered_ = false;
    if (pass.cut.is_cut())
      pass.cut.arrange(ids, kept.ids_,
                       [&](std::size_t b) { return ids[(b + 1) * pass.sequence - 1]; });
    else
      kept.ids_.assign(ids.begin(), ids.end());
    Hidden& embedded = embedding_.forward(kept.ids_, pass, kept.embedding_);
    if (positions_) positions_->forward(embedded, pass);
    if (pass.training_step) dropout_.apply(embedded, *pass.training_step, pass.cut);
    return keeps ? blocks_.forward(embedded, pass, kept.blocks_)
                 : blocks_.evaluate(embedded, pass, kept.blocks_);
  }

  /// The pass with the cut of these sequences.
  [[nodiscard]] Pass cut_pass(std::span<const int> ids, Pass pass) const
  {
    if (context_parallel_ == 1 || pass.sequence == 0) return pass;
    pass.cut = choose_cut(ids.size() / pass.sequence, pass.sequence,
                          row_parts<typename S::Output, typename S::Axes>(this->mesh().extents(),
                                                                          this->mesh().quantum()),
                          context_parallel_);
    return pass;
  }
  /// The rows of H in the order of their tokens.
  const Hidden& order(const Hidden& h, Kept& kept) const
  {
    const SequenceCut& cut = kept.cut_;
    kept.is_ordered_ = true;
    if (!kept.order_ || kept.order_->cut != cut)
    {
      auto& order = kept.order_.emplace(TokenOrder{cut, this->mesh()});
      for (std::size_t b = 0; b < cut.sequences; ++b)
        for (std::size_t s = 0; s < cut.length; ++s)
          order.rows.push_back(static_cast<int>(cut.row(b, s)));
      order.exchange.plan(h.view(), fit_rows(kept.ordered_, order.rows.size()).view());
    }
    kept.order_->exchange.look_up(kept.order_->rows, h.valid(), kept.ordered_->valid());
    return *kept.ordered_;
  }
  /// The gradient of H's rows, computed from the gradient of the rows in the order of their tokens.
  const Hidden& order_back(const Hidden& d, Kept& kept) const
  {
    Hidden& dh = fit_rows(kept.dh_, kept.cut_.rows());
    this->mesh().engine().fill(dh.valid(), T{});
    kept.order_->exchange.add_sums(kept.order_->rows, d.valid(), dh.valid());
    return dh;
  }
  /// The rows of each sequence's last token.
  const Hidden& last_rows(const Hidden& h, const Pass& pass, std::size_t sequences,
                          Kept& kept) const
  {
    Hidden& last = fit_rows(kept.last_, sequences);
    const auto from = h.valid();
    if (pass.cut.is_cut())
    {
      TokenOrder order{pass.cut, this->mesh()};
      for (std::size_t b = 0; b < sequences; ++b)
        order.rows.push_back(static_cast<int>(pass.cut.row(b, pass.sequence - 1)));
      order.exchange.plan(h.view(), last.view());
      order.exchange.look_up(order.rows, from, last.valid());
    }
    else
      for (std::size_t b = 0; b < last.valid().rows(); ++b)
        this->mesh().engine().copy(from.block((b + 1) * pass.sequence - 1, 0, {1, from.cols()}),
                                   last.valid().block(b, 0, {1, from.cols()}));
    return last;
  }
  /// A matrix like H of other rows, which may be cut anywhere.
  Hidden& fit_rows(std::optional<Hidden>& kept, std::size_t rows) const
  {
    const Mesh& mesh = this->mesh();
    return fit(kept, mesh, {rows, config_.width}, mesh.quantum());
  }
  /// The logits of H's rows.
  const Output& logits(const Hidden& h, Kept& kept)
  {
    if (!kept.norm_) kept.norm_ = norm_->make_kept();
    kept.h_ = &h;
    kept.normalized_ = &norm_->forward(h, {}, *kept.norm_);
    return logits_.forward(*kept.normalized_, table(), kept.logits_);
  }

  TransformerConfig config_;
  Embedding embedding_;
  std::optional<PositionEmbedding<S, B, T>> positions_;
  std::size_t context_parallel_;
  bool caches_ = false;
  Dropout dropout_;  // the dropout of the embedding
  detail::LayerStack<Hidden, AnyLayer> blocks_;
  std::unique_ptr<AnyLayer> norm_;
  std::optional<Embedding> table_;  // the table of the logits, if it is not the embedding's
  Logits logits_;
  GradientBuckets<T, Mesh> table_sums_;  // of the logits' part of a tied table's gradient
  bool trains_input_ = true;             // the embedding or the positions
  std::size_t first_trained_ = 0;        // block; those before it, and the input, are frozen
  detail::KeptOfNetwork<Kept> kept_;
  std::optional<Output> d_logits_;
  detail::PaddingRemover padding_;
};

template <SchemeType S, class B, RealScalar T>
std::unique_ptr<AnyTransformer<S, B, T>> make_transformer(const AxisMesh<typename S::Axes, B>& mesh,
                                                          const TransformerConfig& config,
                                                          const TransformerOptions& options)
{
  return std::make_unique<TransformerNetwork<S, B, T>>(mesh, config, options);
}

}  // namespace detail

/// @tparam S a scheme; on a Pipeline of one, nn/transformer/pipelined_transformer.hpp has the model
template <NetworkScheme S, class B, RealScalar T>
class Transformer
{
  static_assert(!is_pipeline<S>,
                "this Transformer is one in stages, whose layers are on several meshes; include "
                "cubist/nn/transformer/pipelined_transformer.hpp");

 public:
  using Value = T;
  using Mesh = AxisMesh<typename S::Axes, B>;
  /// The layer that computes logits.
  using Logits = cubist::Logits<S, B, T>;
  /// The input of the logits: rows of tokens, columns of features.
  using Hidden = DistMatrix<T, typename S::Input, Mesh>;
  using Output = DistMatrix<T, typename S::Output, Mesh>;

  /// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
  Transformer(const Mesh& mesh, const TransformerConfig& config,
              const TransformerOptions& options = {})
      : model_{detail::make_transformer<S, B, T>(mesh, config, options)}
  {
  }

  /// The sizes, as the model was made.
  [[nodiscard]] const TransformerConfig& config() const { return model_->config(); }
  [[nodiscard]] const Mesh& mesh() const { return model_->mesh(); }

  /// The parameters, by their names, with their gradients: embedding.weight, positions.weight,
  /// layers.0.attention_norm.weight, …, norm.weight and, if it is not tied, logits.weight; AdamW
  /// does not decay biases and norms.
  [[nodiscard]] Parameters<T, Mesh> parameters() { return model_->parameters(); }
  /// Appends the parameters, as they are without a network.
  void append_parameters(Parameters<T, Mesh>& list) { model_->append_parameters(list); }
  /// Where the gradients go: `gradients().buckets().set({.bytes = …})` changes the size of buckets.
  [[nodiscard]] Gradients<T, Mesh>& gradients() { return model_->gradients(); }
  /// The parameters' values, by their names, and the seed and step of the next dropout masks.
  void append_state(State<T, Mesh>& state, const std::string& prefix = "")
  {
    model_->append_state(state, prefix);
  }

  /// Dropout applies in training mode, the mode of a new network that is not made for inference.
  /// @throws ArgumentError for a model that was made for inference
  void train() { model_->train(); }
  /// From now on dropout does nothing.
  void eval() { model_->eval(); }
  /// Whether dropout is applied.
  [[nodiscard]] bool training() const { return model_->training(); }

  /// What a forward leaves for its backward.
  class Kept
  {
   public:
    /// Whether a forward has succeeded, and no backward has followed it.
    [[nodiscard]] bool awaits_backward() const { return kept_ && kept_->awaits_backward(); }

   private:
    friend Transformer;

    std::unique_ptr<detail::NetworkKept> kept_;
  };

  /// The logits of each token's next one, which the model owns, and overwrites in the next
  /// `forward`.
  /// @throws ShapeError unless the ids are whole sequences, ArgumentError for ids that the
  /// vocabulary does not have, and for more tokens a sequence than there are positions
  const Output& forward(std::span<const int> ids, std::size_t sequence)
  {
    return model_->forward(ids, sequence, nullptr);
  }
  /// The logits, which `kept` has: several forwards may wait for their backwards.
  const Output& forward(std::span<const int> ids, std::size_t sequence, Kept& kept)
  {
    return model_->forward(ids, sequence, of(kept));
  }

  /// The gradients of all parameters, for the gradient of the last `forward`'s logits.
  /// @throws ShapeError, MeshError for a gradient that is not like the logits; ArgumentError
  /// without a forward
  void backward(const Output& d_logits) { model_->backward(d_logits, nullptr); }
  /// The gradients of all parameters, for the forward that `kept` is of.
  void backward(const Output& d_logits, Kept& kept) { model_->backward(d_logits, of(kept)); }

  /// The loss of predicting each next token, and the gradients of all parameters, multiplied by
  /// `scale`: forward, loss and backward.
  LossValue compute_gradients(std::span<const int> ids, std::size_t sequence, double scale = 1)
  {
    return model_->compute_gradients(ids, {}, sequence, scale);
  }
  /// The loss of predicting the labels, and the gradients of all parameters, multiplied by `scale`.
  /// Ids after a sequence's last label are not read, and tokens after the last label of all
  /// sequences are left out, so padding changes no bit, whatever it is.
  /// @param labels one beside each id, not shifted: the id, or -100 where the loss ignores it
  /// @throws ShapeError, ArgumentError as next_token_loss()
  LossValue compute_gradients(std::span<const int> ids, std::span<const int> labels,
                              std::size_t sequence, double scale = 1)
  {
    return model_->compute_gradients(ids, labels, sequence, scale);
  }

  /// The loss of predicting each next token, without dropout and gradients. A forward that waits
  /// for its backward is not disturbed.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::size_t sequence)
  {
    return model_->evaluate(ids, {}, sequence);
  }
  /// The loss of predicting the labels, as compute_gradients() takes them, without dropout and
  /// gradients.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::span<const int> labels,
                                std::size_t sequence)
  {
    return model_->evaluate(ids, labels, sequence);
  }

  /// The logits of each sequence's last token, (B, V), without dropout. The first token of each
  /// sequence is at `position`; with a cache, those before it are kept from the calls before. A
  /// forward that waits for its backward is not disturbed.
  const Output& next_logits(std::span<const int> ids, std::size_t sequence,
                            std::size_t position = 0)
  {
    return model_->next_logits(ids, sequence, position);
  }

  /// Keeps the keys and values of up to `tokens` tokens a sequence in the next calls of
  /// `next_logits`; 0 keeps none.
  void use_cache(std::size_t tokens) { model_->use_cache(tokens); }

  /// @throws ArgumentError for more tokens a sequence than the model has positions, or than a token
  /// of it sees
  void require_positions(std::size_t tokens) const { model_->require_positions(tokens); }

 private:
  [[nodiscard]] detail::NetworkKept* of(Kept& kept) const
  {
    if (!kept.kept_) kept.kept_ = model_->make_kept();
    return kept.kept_.get();
  }

  std::unique_ptr<detail::AnyTransformer<S, B, T>> model_;
};

}  // namespace cubist::CUBIST_ABI
