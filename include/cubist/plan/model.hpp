// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The planner's input: the layers of an MLP, or a step of a transformer. A TransformerConfig may be
// that of a published model (model/families.hpp lists them).

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/model/families.hpp"
#include "cubist/model/transformer_config.hpp"

namespace cubist::CUBIST_ABI
{

/// Returns layers from sizes[0] to sizes[1] features, from there to sizes[2], and so on, for
/// `tokens` rows.
/// @throws ArgumentError for fewer than two sizes
[[nodiscard]] inline std::vector<ProductSize> mlp_layers(std::size_t tokens,
                                                         const std::vector<std::size_t>& sizes)
{
  require<ArgumentError>(sizes.size() >= 2, "got ", sizes.size(),
                         " sizes for a network, so it would have no layer to plan; give the sizes "
                         "of its input, its hidden layers and its output");
  std::vector<ProductSize> layers;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers.push_back({.m = tokens, .n = sizes[i + 1], .k = sizes[i]});
  return layers;
}

namespace detail
{

/// The maximum number of elements of a matrix in a plan, so that 64 bits can count what ranks hold
/// and send.
inline constexpr double most_elements = 0x1p50;

inline void require_countable(std::size_t rows, std::size_t cols)
{
  require<ShapeError>(double(rows) * double(cols) <= most_elements, "got a matrix of ", rows, " x ",
                      cols,
                      ", which has more than 2^50 elements, so no machine can hold it; use "
                      "smaller sizes");
}

}  // namespace detail

/// Checks layers before they are planned.
/// @throws ArgumentError for no layers; ShapeError for a size of 0, for layers that do not fit one
/// another, or for more elements than any machine can hold
inline void require_valid(const std::vector<ProductSize>& layers)
{
  require<ArgumentError>(!layers.empty(),
                         "got no layers, so there is nothing to plan; give at least one product");
  for (std::size_t i = 0; i < layers.size(); ++i)
  {
    const auto& [m, n, k] = layers[i];
    require<ShapeError>(m > 0 && n > 0 && k > 0, "got m = ", m, ", n = ", n, ", k = ", k,
                        " for layer ", i, ", so there is nothing to multiply; use positive sizes");
    for (const Shape s : {Shape{m, k}, Shape{k, n}, Shape{m, n}})
      detail::require_countable(s.rows, s.cols);
    const Shape previous = i == 0 ? Shape{m, k} : Shape{layers[i - 1].m, layers[i - 1].n};
    require<ShapeError>(previous == Shape{m, k}, "layer ", i, " takes X of ", Shape{m, k},
                        ", but the layer before it has Y of ", previous,
                        "; give layers that fit, or plan them one by one");
  }
}

/// The earlier description of a transformer for plans.
using TransformerModel [[deprecated("use TransformerConfig, which has biases and ties its table "
                                    "unless it is told otherwise")]] = TransformerConfig;

/// Returns the configuration.
[[deprecated("plan the TransformerConfig itself")]] [[nodiscard]] inline TransformerConfig
transformer_model(const TransformerConfig& config, const std::string&)
{
  return config;
}

/// Returns "gpt2, gpt2-medium, …" for messages.
[[nodiscard]] inline std::string transformer_model_names()
{
  std::string names;
  for (const auto& family : detail::model_families)
    for (const auto& model : family.published)
      names += (names.empty() ? "" : ", ") + std::string{model.name};
  return names;
}

/// Returns the configuration of the published model with this name.
/// @throws ArgumentError if no published model has the name
[[nodiscard]] inline TransformerConfig transformer_model(std::string_view name)
{
  for (const auto& family : detail::model_families)
    for (const auto& model : family.published)
      if (name == model.name) return model.config(family.defaults()).completed();
  throw ArgumentError{"got the model \"" + std::string{name} +
                      "\", but cubist does not know its sizes; use " + transformer_model_names()};
}

/// Sequences of equal length; token (b, s) is row b length + s.
struct TokenBatch
{
  std::size_t sequences = 1;  ///< sequences in a step
  std::size_t length = 1;     ///< tokens in a sequence

  /// The number of tokens in a step.
  [[nodiscard]] constexpr std::size_t tokens() const { return sequences * length; }
  friend constexpr bool operator==(const TokenBatch&, const TokenBatch&) = default;
};

/// Divides tokens into sequences of this length; 0 stands for the longest that the model was made
/// for or that fits its window. With rotary positions, which have no table, sequences may be longer
/// than those the model was made for.
/// @param name  the name of the model, for messages
/// @throws what TransformerConfig::completed() throws, ArgumentError for no tokens, for a sequence
/// longer than a table of positions or a sliding window, or for tokens that are not whole sequences
[[nodiscard]] inline TokenBatch token_batch(const TransformerConfig& model, std::size_t tokens,
                                            std::size_t length = 0,
                                            const std::string& name = "a model")
{
  model.check();
  require<ArgumentError>(tokens > 0, "got 0 tokens for ", name,
                         ", so there is nothing to compute; use a positive number");
  if (length == 0)
    length = std::min({tokens, model.positions, model.window > 0 ? model.window : tokens});
  require<ArgumentError>(!model.learned_positions || length <= model.positions, "got sequences of ",
                         length, " tokens for ", name, ", which has a table of ", model.positions,
                         " positions, so later tokens would have none; use shorter sequences");
  require<ArgumentError>(
      model.window == 0 || length <= model.window, "got sequences of ", length, " tokens for ",
      name, ", which has a sliding window of ", model.window,
      " tokens, but cubist computes attention to all tokens, so it would not run them; use "
      "sequences that are no longer than the window");
  require<ArgumentError>(
      tokens % length == 0, "got ", tokens, " tokens in sequences of ", length,
      ", so the last would be incomplete and attention would have no rows for it; use ",
      tokens < length ? length : tokens - tokens % length, " tokens, or another length");
  return {tokens / length, length};
}

/// The model and the tokens of a training step to plan.
struct TransformerStep
{
  TransformerConfig model;  ///< the model that is trained
  TokenBatch batch;         ///< the tokens of the step
};

/// @throws what TransformerConfig::completed() throws, ShapeError for a batch without tokens, or
/// for more elements than any machine can hold
inline void require_valid(const TransformerStep& step)
{
  const auto model = step.model.completed();
  const auto [sequences, length] = step.batch;
  require<ShapeError>(sequences > 0 && length > 0, "got ", sequences, " sequences of ", length,
                      " tokens, so there is nothing to compute; use positive numbers");
  const auto widest = static_cast<double>(model.widest());
  require<ShapeError>(double(sequences) * double(length) * widest <= detail::most_elements, "got ",
                      sequences, " sequences of ", length,
                      " tokens, whose matrices would have more than 2^50 elements, so no machine "
                      "can hold them; use fewer tokens");
  detail::require_countable(model.width, std::max(model.widest(), model.positions));
}

}  // namespace cubist::CUBIST_ABI
