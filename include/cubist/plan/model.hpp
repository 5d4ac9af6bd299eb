// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sizes of networks that the planner needs: the layers of an MLP, a transformer, and published
// transformers.
//
//   embedding -> layers of (norm, attention, +, norm, feed-forward, +) -> norm -> logits
//
// Attention has `heads` query heads; `key_value_heads` of keys and values, each of which a group of
// query heads shares. The feed-forward network is two layers with an activation between, or, gated,
// three: down(f(gate(X)) up(X)).
//
// nn/transformer/families.hpp lists the published models.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/nn/transformer/families.hpp"
#include "cubist/nn/transformer/transformer_config.hpp"

namespace cubist::CUBIST_ABI
{

/// Layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on, for `tokens` rows.
/// @throws ArgumentError for fewer than two sizes
[[nodiscard]] inline std::vector<ProductSize> mlp_layers(std::size_t tokens,
                                                         const std::vector<std::size_t>& sizes)
{
  require<ArgumentError>(
      sizes.size() >= 2, "got ", sizes.size(),
      " sizes for a network, which has no layer then, so there is nothing to plan; give the sizes "
      "of its input, its hidden layers and its output");
  std::vector<ProductSize> layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.push_back({.m = tokens, .n = sizes[i + 1], .k = sizes[i]});
  return layers;
}

namespace detail
{

/// The most elements that a matrix may have in a plan, so that 64 bits count what ranks hold and
/// send.
inline constexpr double most_elements = 0x1p50;

inline void require_countable(std::size_t rows, std::size_t cols)
{
  require<ShapeError>(double(rows) * double(cols) <= most_elements, "got a matrix of ", rows, " x ",
                      cols,
                      ", which has more than 2^50 elements, so no machine can hold it; use "
                      "smaller sizes");
}

}  // namespace detail

/// @throws ArgumentError without layers, ShapeError for a size of 0, for layers that do not chain,
/// or for more elements than any machine can hold
inline void require_valid(const std::vector<ProductSize>& layers)
{
  require<ArgumentError>(!layers.empty(),
                         "got no layers, so there is nothing to plan; give at least one product");
  for (std::size_t i = 0; i < layers.size(); ++i)
  {
    const auto& [m, n, k] = layers[i];
    require<ShapeError>(m > 0 && n > 0 && k > 0, "got m = ", m, ", n = ", n, ", k = ", k,
                        " for layer ", i,
                        ", so there is nothing to multiply, on any mesh; use positive sizes");
    for (const Shape s : {Shape{m, k}, Shape{k, n}, Shape{m, n}})
      detail::require_countable(s.rows, s.cols);
    const Shape previous = i == 0 ? Shape{m, k} : Shape{layers[i - 1].m, layers[i - 1].n};
    require<ShapeError>(
        previous == Shape{m, k}, "got layer ", i, " for X of ", Shape{m, k},
        " behind a layer whose Y is ", previous,
        ", so that Y cannot be its X; give layers that fit, or plan them one by one");
  }
}

/// A transformer as the planner sees it: sizes without weights.
struct TransformerModel
{
  std::string name = {};
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  ///< the longest sequence that the model was made for
  std::size_t window = 0;     ///< the tokens of a sliding window, as in TransformerConfig; 0: none
  std::size_t width = 0;      ///< the width of the residual stream
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  ///< heads of keys and values
  std::size_t feed_forward = 0;     ///< between its two layers
  bool gated = false;               ///< a third matrix, as in SwiGLU
  bool rms_norm = false;            ///< RMSNorm; else LayerNorm, with weight and bias
  bool rotary = false;              ///< rotary positions; else a learned embedding of each
  bool tied = false;                ///< the logits' weights are the embedding's
  bool bias = false;                ///< of all linear layers
  std::size_t head_width = 0;       ///< features of a head; 0: width / heads
  /// Which linear layers have a bias, if not all have one.
  bool query_key_value_bias = false;
  bool attention_output_bias = false;  ///< attention's last layer
  bool feed_forward_bias = false;      ///< those of the feed-forward network
  bool head_norms = false;             ///< norms of queries and keys, a head at a time

  /// Features of a head.
  [[nodiscard]] constexpr std::size_t head_size() const
  {
    return head_width == 0 ? width / heads : head_width;
  }
  /// The columns of the widest matrix of activations.
  [[nodiscard]] constexpr std::size_t widest() const
  {
    return std::max(
        {width, vocabulary, query_width() + 2 * key_value_width(), (gated ? 2 : 1) * feed_forward});
  }
  /// The columns of Q.
  [[nodiscard]] constexpr std::size_t query_width() const { return heads * head_size(); }
  /// Query heads to a head of keys and values.
  [[nodiscard]] constexpr std::size_t group() const { return heads / key_value_heads; }
  /// The columns of K, and of V.
  [[nodiscard]] constexpr std::size_t key_value_width() const
  {
    return key_value_heads * head_size();
  }

  /// The model's parameters; a tied matrix counts once.
  [[nodiscard]] constexpr std::size_t parameters() const
  {
    const std::size_t norm = width * (rms_norm ? 1 : 2);
    const std::size_t q = query_width(), kv = key_value_width();
    const std::size_t matrices =
        2 * width * q + 2 * width * kv + (gated ? 3 : 2) * width * feed_forward;
    const std::size_t biases =
        (bias || query_key_value_bias ? q + 2 * kv : 0) +
        (bias || attention_output_bias ? width : 0) +
        (bias || feed_forward_bias ? (gated ? 2 : 1) * feed_forward + width : 0);
    const std::size_t embeddings =
        (tied ? 1 : 2) * vocabulary * width + (rotary ? 0 : positions * width);
    const std::size_t norms = 2 * norm + (head_norms ? 2 * head_size() : 0);
    return embeddings + layers * (matrices + biases + norms) + norm;
  }
};

/// @throws ShapeError for a size of 0, or for heads that do not divide the width or do not fall
/// into groups
inline void require_valid(const TransformerModel& model)
{
  const auto positive = [](const char* what, std::size_t value) {
    require<ShapeError>(value > 0, "got a transformer with ", what,
                        " = 0, so there is nothing to compute; use positive sizes");
  };
  positive("vocabulary", model.vocabulary);
  positive("positions", model.positions);
  positive("width", model.width);
  positive("layers", model.layers);
  positive("heads", model.heads);
  positive("key_value_heads", model.key_value_heads);
  positive("feed_forward", model.feed_forward);
  require<ShapeError>(model.head_width > 0 || model.width % model.heads == 0,
                      "got a transformer of width ", model.width, " with ", model.heads,
                      " heads, which would differ in size; use a number of heads that divides the "
                      "width, or give a head_width");
  require<ShapeError>(model.heads % model.key_value_heads == 0, "got a transformer with ",
                      model.heads, " heads and ", model.key_value_heads,
                      " heads of keys and values, which groups of equal size cannot share; use a "
                      "number that divides the heads");
}

/// The sizes of a configuration that the planner needs.
[[nodiscard]] inline TransformerModel transformer_model(const TransformerConfig& c,
                                                        std::string name)
{
  return {.name = std::move(name),
          .vocabulary = c.vocabulary,
          .positions = c.positions,
          .window = c.window,
          .width = c.width,
          .layers = c.layers,
          .heads = c.heads,
          .key_value_heads = c.key_value_heads == 0 ? c.heads : c.key_value_heads,
          .feed_forward = c.feed_forward == 0 ? 4 * c.width : c.feed_forward,
          .gated = c.gated,
          .rms_norm = c.norm == Norm::rms_norm,
          .rotary = !c.learned_positions,
          .tied = c.tied,
          .bias = c.bias,
          .head_width = c.head_size,
          .query_key_value_bias = c.query_key_value_bias,
          .attention_output_bias = c.attention_output_bias,
          .feed_forward_bias = c.feed_forward_bias,
          .head_norms = c.head_norms};
}

/// The published models that the planner knows.
[[nodiscard]] inline const std::vector<TransformerModel>& transformer_models()
{
  static const std::vector<TransformerModel> models = [] {
    std::vector<TransformerModel> all;
    for (const auto& family : detail::model_families)
      for (const auto& published : family.published)
      {
        auto c = family.defaults();
        c.vocabulary = published.vocabulary;
        c.positions = published.positions;
        c.width = published.width;
        c.layers = published.layers;
        c.heads = published.heads;
        c.key_value_heads = published.key_value_heads;
        c.feed_forward = published.feed_forward;
        c.head_size = published.head_size;
        c.tied = published.tied;
        c.window = published.window;
        all.push_back(transformer_model(c, published.name));
      }
    return all;
  }();
  return models;
}

/// "gpt2, gpt2-medium, …", for messages.
[[nodiscard]] inline std::string transformer_model_names()
{
  std::string names;
  for (const auto& model : transformer_models()) names += (names.empty() ? "" : ", ") + model.name;
  return names;
}

/// The published model of this name.
/// @throws ArgumentError if no published model has the name
[[nodiscard]] inline const TransformerModel& transformer_model(std::string_view name)
{
  const auto& models = transformer_models();
  const auto known = std::find_if(models.begin(), models.end(),
                                  [&](const auto& model) { return model.name == name; });
  require<ArgumentError>(known != models.end(), "got the model \"", name,
                         "\", whose sizes are unknown here, so nothing can be planned for it; use ",
                         transformer_model_names());
  return *known;
}

/// Sequences of equally many tokens; token (b, s) is row b length + s.
struct TokenBatch
{
  std::size_t sequences = 1;  ///< sequences of a step
  std::size_t length = 1;     ///< tokens of a sequence

  /// Tokens of a step.
  [[nodiscard]] constexpr std::size_t tokens() const { return sequences * length; }
  friend constexpr bool operator==(const TokenBatch&, const TokenBatch&) = default;
};

/// Divides tokens into sequences of this length; 0 stands for the longest that the model was made
/// for, or that fits its window. Rotary positions have no table, so sequences may be longer than
/// the model was made for.
/// @throws ArgumentError without tokens, for a sequence longer than a table of positions or than a
/// sliding window, or for tokens that are no whole sequences
[[nodiscard]] inline TokenBatch token_batch(const TransformerModel& model, std::size_t tokens,
                                            std::size_t length = 0)
{
  require<ArgumentError>(tokens > 0, "got 0 tokens for ", model.name,
                         ", so there is nothing to compute; use a positive number");
  if (length == 0)
    length = std::min({tokens, model.positions, model.window > 0 ? model.window : tokens});
  require<ArgumentError>(model.rotary || length <= model.positions, "got sequences of ", length,
                         " tokens for ", model.name, ", which has a table of ", model.positions,
                         " positions, so later tokens would have none; use shorter sequences");
  require<ArgumentError>(
      model.window == 0 || length <= model.window, "got sequences of ", length, " tokens for ",
      model.name, ", which has a sliding window of ", model.window,
      " tokens, but cubist computes attention to all tokens, so it would not run them; use "
      "sequences that are no longer than the window");
  require<ArgumentError>(
      tokens % length == 0, "got ", tokens, " tokens in sequences of ", length,
      ", of which the last would be incomplete, so attention would have no rows for it; use ",
      tokens < length ? length : tokens - tokens % length, " tokens, or another length");
  return {tokens / length, length};
}

/// The model and the tokens of the training step that is planned.
struct TransformerStep
{
  TransformerModel model;  ///< the model that is trained
  TokenBatch batch;        ///< the tokens of a step
};

/// @throws ShapeError for a model that is invalid, for a batch without tokens, or for more elements
/// than any machine can hold
inline void require_valid(const TransformerStep& step)
{
  require_valid(step.model);
  require<ShapeError>(step.batch.sequences > 0 && step.batch.length > 0, "got ",
                      step.batch.sequences, " sequences of ", step.batch.length,
                      " tokens, so there is nothing to compute; use positive numbers");
  const auto& model = step.model;
  const auto [sequences, length] = step.batch;
  const auto widest = static_cast<double>(model.widest());
  require<ShapeError>(double(sequences) * double(length) * widest <= detail::most_elements, "got ",
                      sequences, " sequences of ", length, " tokens for ", model.name,
                      ", whose "
                      "matrices would have more than 2^50 elements, so no machine can hold them; "
                      "use fewer tokens");
  detail::require_countable(model.width, std::max(model.widest(), model.positions));
}

}  // namespace cubist::CUBIST_ABI
