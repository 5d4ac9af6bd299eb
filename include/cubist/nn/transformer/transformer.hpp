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
// Words: those of the layers; plan/transformer_cost.hpp has their sum.
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Touvron et
// al., "LLaMA", arXiv 2302.13971; the cutting: Xu et al., "Optimus", arXiv 2104.05343, section 3.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/dist/state.hpp"
#include "cubist/nn/dropout.hpp"
#include "cubist/nn/layer.hpp"
#include "cubist/nn/layer_stack.hpp"
#include "cubist/nn/layers/embedding.hpp"
#include "cubist/nn/layers/layer_norm.hpp"
#include "cubist/nn/layers/position_embedding.hpp"
#include "cubist/nn/layers/rms_norm.hpp"
#include "cubist/nn/loss.hpp"
#include "cubist/nn/parameter.hpp"
#include "cubist/nn/transformer/config.hpp"
#include "cubist/nn/transformer/logits.hpp"
#include "cubist/nn/transformer/next_token_loss.hpp"
#include "cubist/nn/transformer/transformer_block.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <SchemeType S, class B, RealScalar T>
class Transformer
{
 public:
  using Value = T;
  /// The layer that computes logits.
  using Logits = cubist::Logits<S, B, T>;
  using Mesh = typename Logits::Mesh;
  /// The input of the logits: rows of tokens, columns of features.
  using Hidden = typename Logits::Input;
  using Output = typename Logits::Output;

  /// @throws ShapeError for sizes that do not fit, ArgumentError for options out of range
  Transformer(const Mesh& mesh, const TransformerConfig& config,
              const TransformerOptions& options = {})
      : mesh_{mesh}, config_{config}, seed_{options.seed}, embedding_{mesh,
                                                                      config.vocabulary,
                                                                      config.width,
                                                                      {.seed = options.seed}},
        dropout_{options.dropout, options.seed, 0}, blocks_{"forward of block", "backward of block",
                                                            options.recompute},
        norm_{make_norm(mesh, config)}, logits_{options.gathered, options.method}
  {
    config.check();
    const std::size_t after = detail::layer_indices * config.layers + 1;
    if (config.learned_positions)
      positions_.emplace(mesh, config.positions, config.width,
                         EmbeddingOptions{.seed = options.seed, .index = after});
    if (!config.tied)
      table_.emplace(mesh, config.vocabulary, config.width,
                     EmbeddingOptions{.seed = options.seed, .index = after + 1});
    for (std::size_t i = 0; i < config.layers; ++i)
      blocks_.add(detail::make_block<S, B, T>(mesh, config, options, i));
  }

  [[nodiscard]] const Mesh& mesh() const { return mesh_; }
  /// The sizes, as the model was made.
  [[nodiscard]] const TransformerConfig& config() const { return config_; }

  /// The logits of each token's next one, which the model owns, and overwrites in the next
  /// `forward`.
  /// @throws ShapeError unless the ids are whole sequences, ArgumentError for ids that the
  /// vocabulary does not have, and for more tokens a sequence than there are positions
  const Output& forward(std::span<const int> ids, std::size_t sequence)
  {
    pass_ = {{}, sequence, 0};
    if (training_) pass_.training_step = detail::next_step(mesh_.engine(), steps_);
    ids_.assign(ids.begin(), ids.end());
    const Hidden& h = run(ids, pass_);
    return logits_.forward(normalize(h), table());
  }

  /// The gradients of all parameters, for the gradient of the last `forward`'s logits.
  /// @throws ShapeError, MeshError for a gradient that is not like the logits; ArgumentError
  /// without a forward, and after an `evaluate` or a `next_logits` that came after it
  void backward(const Output& d_logits)
  {
    blocks_.require_forward();
    const Hidden* d = &d_normalized(d_logits);
    std::visit([&](auto& norm) { d = norm.backward(*h_, *d, pass_, true); }, norm_);
    d = blocks_.backward(*d, true);
    if (pass_.training_step && dropout_.probability() > 0)
    {
      dropout_.apply(*d, detail::fit_like(dh_, *d), *pass_.training_step);
      d = &*dh_;
    }
    if (positions_) positions_->backward(*d, pass_);
    logits_.finish_backward();  // the table's gradient, to which the embedding adds
    embedding_.backward(ids_, *d, config_.tied);
    if (positions_) positions_->finish_backward();
    std::visit([](auto& norm) { norm.finish_backward(); }, norm_);
    blocks_.finish_backward();
  }

  /// The loss of predicting each next token, and the gradients of all parameters, multiplied by
  /// `scale`: forward, loss and backward.
  LossValue compute_gradients(std::span<const int> ids, std::size_t sequence, double scale = 1)
  {
    const Output& y = forward(ids, sequence);
    Output& dy = detail::fit_like(d_logits_, y);
    LossValue loss = next_token_loss(y, ids, sequence, dy);
    scale_gradient(dy, scale);
    backward(dy);
    return loss;
  }

  /// The loss of predicting each next token, without dropout and gradients. It replaces the outputs
  /// that `forward` kept, so
  /// the next `backward` needs another `forward`.
  [[nodiscard]] double evaluate(std::span<const int> ids, std::size_t sequence)
  {
    const Hidden& h = run(ids, {.training_step = {}, .sequence = sequence, .position = 0});
    blocks_.discard();
    const Output& y = logits_.forward(normalize(h), table());
    return next_token_loss(y, ids, sequence);
  }

  /// The logits of each sequence's last token, (B, V), without dropout. The first token of each
  /// sequence is at `position`; with a cache, those before it are kept from the calls before.
  const Output& next_logits(std::span<const int> ids, std::size_t sequence,
                            std::size_t position = 0)
  {
    const Hidden& h = run(ids, {.training_step = {}, .sequence = sequence, .position = position});
    blocks_.discard();
    Hidden& last =
        detail::fit(last_, mesh_, {ids.size() / sequence, config_.width}, mesh_.quantum());
    const auto from = h.valid();
    for (std::size_t b = 0; b < last.valid().rows(); ++b)
      mesh_.engine().copy(from.block((b + 1) * sequence - 1, 0, {1, from.cols()}),
                          last.valid().block(b, 0, {1, from.cols()}));
    return logits_.forward(normalize(last), table());
  }

  /// Keeps the keys and values of up to `tokens` tokens a sequence in the next calls of
  /// `next_logits`; 0 keeps none.
  void use_cache(std::size_t tokens)
  {
    for (auto& block : blocks_.layers()) block->use_cache(tokens);
  }

  /// @throws ArgumentError for more tokens a sequence than the model has positions
  void require_positions(std::size_t tokens) const
  {
    require<ArgumentError>(tokens <= config_.positions, "got sequences of ", tokens,
                           " tokens for a model of ", config_.positions,
                           " positions, which was not made for them; use shorter ones");
  }

  /// embedding.weight, positions.weight, layers.0.attention_norm.weight, …, norm.weight and, if it
  /// is not tied, logits.weight
  [[nodiscard]] Parameters<T, Mesh> parameters()
  {
    Parameters<T, Mesh> list;
    embedding_.append_parameters(list, "embedding.");
    if (positions_) positions_->append_parameters(list, "positions.");
    const auto& blocks = blocks_.layers();
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i]->append_parameters(list, "layers." + std::to_string(i) + ".");
    std::visit([&](auto& norm) { norm.append_parameters(list, "norm."); }, norm_);
    if (table_) table_->append_parameters(list, "logits.");
    return list;
  }

  /// The parameters' values, by their names, and the seed and step of the next dropout masks.
  void append_state(State<T, Mesh>& state, const std::string& prefix = "")
  {
    for (const auto& p : parameters()) state.matrices.push_back({prefix + p.name, p.value});
    state.numbers.push_back({prefix + "seed", &seed_, true});
    state.numbers.push_back({prefix + "forwards", &steps_});
  }

  /// Dropout applies in training mode, the mode of a new model.
  void train() { training_ = true; }
  /// From now on dropout does nothing.
  void eval() { training_ = false; }
  /// Whether dropout is applied.
  [[nodiscard]] bool training() const { return training_; }

 private:
  using Embedding = cubist::Embedding<S, B, T>;
  using AnyNorm = std::variant<LayerNorm<S, B, T>, RmsNorm<S, B, T>>;

  [[nodiscard]] static AnyNorm make_norm(const Mesh& mesh, const TransformerConfig& config)
  {
    if (config.norm == Norm::layer_norm)
      return LayerNorm<S, B, T>{mesh, config.width, {config.epsilon}};
    return RmsNorm<S, B, T>{mesh, config.width, {config.epsilon}};
  }

  /// The gradient of the norm's output, and the logits' part of the table's.
  const Hidden& d_normalized(const Output& d_logits)
  {
    const auto backward = [&]() -> const Hidden& {
      return logits_.backward(*normalized_, table(), d_logits, table_gradient());
    };
    if (!config_.tied) return backward();
    // The embedding adds its part to the complete sum, and passes it to a sink.
    const GradientSinkScope<T, Mesh> none{mesh_, nullptr};
    return backward();
  }
  [[nodiscard]] auto& table() { return table_ ? table_->table() : embedding_.table(); }
  [[nodiscard]] auto& table_gradient()
  {
    return table_ ? table_->table_gradient() : embedding_.table_gradient();
  }

  /// H after all blocks.
  const Hidden& run(std::span<const int> ids, const Pass& pass)
  {
    require<ShapeError>(pass.sequence > 0 && !ids.empty() && ids.size() % pass.sequence == 0,
                        "got ", ids.size(), " tokens in sequences of ", pass.sequence,
                        ", which they do not fill; give whole sequences");
    require_positions(pass.position + pass.sequence);
    blocks_.discard();
    Hidden& embedded = embedding_.forward(ids, pass);
    if (positions_) positions_->forward(embedded, pass);
    if (pass.training_step) dropout_.apply(embedded, *pass.training_step);
    h_ = &blocks_.forward(embedded, pass);
    return *h_;
  }
  const Hidden& normalize(const Hidden& h)
  {
    std::visit([&](auto& norm) { normalized_ = &norm.forward(h, {}); }, norm_);
    return *normalized_;
  }

  Mesh mesh_;
  TransformerConfig config_;
  std::uint64_t seed_;
  Embedding embedding_;
  std::optional<PositionEmbedding<S, B, T>> positions_;
  Dropout dropout_;  // of the embedding
  detail::LayerStack<Hidden, detail::AnyBlock<Hidden>> blocks_;
  AnyNorm norm_;
  std::optional<Embedding> table_;  // of the logits, if it is not the embedding's
  Logits logits_;
  std::optional<Hidden> last_;  // rows of the last tokens
  std::optional<Hidden> dh_;
  std::optional<Output> d_logits_;
  std::vector<int> ids_;                // of the last forward
  const Hidden* h_ = nullptr;           // the norm's input
  const Hidden* normalized_ = nullptr;  // the norm's output
  Pass pass_;                           // the last forward
  bool training_ = true;
  std::uint64_t steps_ = 0;  // forwards in training mode
};

}  // namespace cubist::CUBIST_ABI
