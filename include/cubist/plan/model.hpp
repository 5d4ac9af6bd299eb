// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sizes of networks, as the planner needs them: the layers of an MLP; a transformer, and
// published ones.
//
//   embedding -> layers of (norm, attention, +, norm, feed-forward, +) -> norm -> logits
//
// Attention has `heads` query heads; `key_value_heads` of keys and values, each of which a group of
// query heads shares. The feed-forward network is two layers with an activation between, or, gated,
// three: down(f(gate(X)) up(X)).
//
// Source: Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; Brown et
// al., "Language Models are Few-Shot Learners", arXiv 2005.14165; Touvron et al., "LLaMA", arXiv
// 2302.13971, and "Llama 2", arXiv 2307.09288; "The Llama 3 Herd of Models", arXiv 2407.21783.

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI
{

/// Layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on, for `tokens` rows.
/// @throws ArgumentError for fewer than two sizes
[[nodiscard]] inline std::vector<ProductSize> mlp_layers(std::size_t tokens,
                                                         const std::vector<std::size_t>& sizes)
{
  require<ArgumentError>(sizes.size() >= 2, "got ", sizes.size(),
                         " sizes for a network, which make no layer, so there is nothing to plan; "
                         "give those of its input, its hidden layers and its output");
  std::vector<ProductSize> layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.push_back({.m = tokens, .n = sizes[i + 1], .k = sizes[i]});
  return layers;
}

/// @throws ArgumentError without layers, ShapeError for a size of 0 or for layers that do not chain
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
    const Shape previous = i == 0 ? Shape{m, k} : Shape{layers[i - 1].m, layers[i - 1].n};
    require<ShapeError>(previous == Shape{m, k}, "got layer ", i, " for X of ", Shape{m, k},
                        " behind a layer whose Y is ", previous,
                        ", so it cannot be its X; give layers that fit, or plan them one by one");
  }
}

/// A transformer as the planner sees it: sizes without weights.
struct TransformerModel
{
  std::string name = {};
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  ///< the longest sequence
  std::size_t width = 0;      ///< of the residual stream
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  ///< heads of keys and values
  std::size_t feed_forward = 0;     ///< between its two layers
  bool gated = false;               ///< a third matrix, as in SwiGLU
  bool rms_norm = false;            ///< RMSNorm; else LayerNorm, with weight and bias
  bool rotary = false;              ///< rotary positions; else a learned embedding of each
  bool tied = false;                ///< the logits' weights are the embedding's
  bool bias = false;                ///< of the linear layers

  /// Features of a head.
  [[nodiscard]] constexpr std::size_t head_size() const { return width / heads; }
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
    const std::size_t matrices =
        2 * width * width + 2 * width * key_value_width() + (gated ? 3 : 2) * width * feed_forward;
    const std::size_t biases =
        bias ? 2 * width + 2 * key_value_width() + (gated ? 2 : 1) * feed_forward + width : 0;
    const std::size_t embeddings =
        (tied ? 1 : 2) * vocabulary * width + (rotary ? 0 : positions * width);
    return embeddings + layers * (matrices + biases + 2 * norm) + norm;
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
  require<ShapeError>(model.width % model.heads == 0, "got a transformer of width ", model.width,
                      " with ", model.heads,
                      " heads, which would differ in size; use a number of heads that divides the "
                      "width");
  require<ShapeError>(model.heads % model.key_value_heads == 0, "got a transformer with ",
                      model.heads, " heads and ", model.key_value_heads,
                      " heads of keys and values, which groups of equal size cannot share; use a "
                      "number that divides the heads");
}

/// The published models that the planner knows.
[[nodiscard]] inline const std::vector<TransformerModel>& transformer_models()
{
  const auto gpt = [](const char* name, std::size_t positions, std::size_t width,
                      std::size_t layers, std::size_t heads) {
    return TransformerModel{.name = name,
                            .vocabulary = 50'257,
                            .positions = positions,
                            .width = width,
                            .layers = layers,
                            .heads = heads,
                            .key_value_heads = heads,
                            .feed_forward = 4 * width,
                            .tied = true,
                            .bias = true};
  };
  struct Numbers
  {
    std::size_t vocabulary, positions, width, layers, heads, key_value_heads, feed_forward;
  };
  const auto llama = [](const char* name, const Numbers& n) {
    return TransformerModel{.name = name,
                            .vocabulary = n.vocabulary,
                            .positions = n.positions,
                            .width = n.width,
                            .layers = n.layers,
                            .heads = n.heads,
                            .key_value_heads = n.key_value_heads,
                            .feed_forward = n.feed_forward,
                            .gated = true,
                            .rms_norm = true,
                            .rotary = true};
  };
  static const std::vector<TransformerModel> models = {
      gpt("gpt2", 1024, 768, 12, 12),
      gpt("gpt2-medium", 1024, 1024, 24, 16),
      gpt("gpt2-large", 1024, 1280, 36, 20),
      gpt("gpt2-xl", 1024, 1600, 48, 25),
      gpt("gpt3-175b", 2048, 12'288, 96, 96),
      llama("llama-7b", {32'000, 2048, 4096, 32, 32, 32, 11'008}),
      llama("llama-13b", {32'000, 2048, 5120, 40, 40, 40, 13'824}),
      llama("llama-65b", {32'000, 2048, 8192, 80, 64, 64, 22'016}),
      llama("llama2-70b", {32'000, 4096, 8192, 80, 64, 8, 28'672}),
      llama("llama3-8b", {128'256, 8192, 4096, 32, 32, 8, 14'336}),
      llama("llama3-70b", {128'256, 8192, 8192, 80, 64, 8, 28'672}),
      llama("llama3.1-405b", {128'256, 131'072, 16'384, 126, 128, 8, 53'248})};
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
/// @throws ArgumentError for a name that is none of them
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

/// So many tokens as sequences of this length; 0: the longest that the model takes.
/// @throws ArgumentError without tokens, for a sequence longer than the model takes, or for tokens
/// that are no whole sequences
[[nodiscard]] inline TokenBatch token_batch(const TransformerModel& model, std::size_t tokens,
                                            std::size_t length = 0)
{
  require<ArgumentError>(tokens > 0, "got 0 tokens for ", model.name,
                         ", so there is nothing to compute; use a positive number");
  if (length == 0) length = tokens < model.positions ? tokens : model.positions;
  require<ArgumentError>(length <= model.positions, "got sequences of ", length, " tokens for ",
                         model.name, ", which has ", model.positions,
                         " positions; use no more than those");
  require<ArgumentError>(
      tokens % length == 0, "got ", tokens, " tokens in sequences of ", length,
      ", of which the last would be incomplete, so attention would have no rows for it; use ",
      tokens < length ? length : tokens - tokens % length, " tokens, or another length");
  return {tokens / length, length};
}

/// What is planned: a model, and the tokens of a step.
struct TransformerStep
{
  TransformerModel model;  ///< the model that is trained
  TokenBatch batch;        ///< the tokens of a step
};

/// @throws ShapeError for a model that is invalid, or for a batch without tokens
inline void require_valid(const TransformerStep& step)
{
  require_valid(step.model);
  require<ShapeError>(step.batch.tokens() > 0, "got ", step.batch.sequences, " sequences of ",
                      step.batch.length,
                      " tokens, so there is nothing to compute; use positive numbers");
}

}  // namespace cubist::CUBIST_ABI
