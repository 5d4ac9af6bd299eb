// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Describes a transformer: its sizes, and what its parts are made of. Networks (transformer.hpp),
// the planner (plan/planner.hpp) and files (config.hpp) share it; families.hpp says which models of
// Hugging Face have which parts.
//
//   embedding -> layers of (norm, attention, +, norm, feed-forward, +) -> norm -> logits
//
// Attention has `heads` query heads, and `key_value_heads` heads of keys and values. A group of
// query heads shares each key-value head.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/model/attention_heads.hpp"
#include "cubist/model/rotary_scaling.hpp"

namespace cubist::CUBIST_ABI
{

/// The norms and the feed-forward network of a transformer.
enum class TransformerKind : std::uint8_t
{
  gpt,   ///< GPT-2's: LayerNorm, and two linear layers with `activation` between them
  llama  ///< Llama's: RMSNorm, and SwiGLU: down(silu(gate(X)) up(X))
};

/// The activation of a feed-forward network of TransformerKind::gpt.
enum class FeedForwardActivation : std::uint8_t
{
  approximate_gelu,  ///< gelu_tanh, as in GPT-2
  exact_gelu,        ///< gelu
  rectified,         ///< relu
  sigmoid_weighted   ///< silu
};

/// The linear layers of a transformer that have a bias.
struct LayerBiases
{
  bool query_key_value;   ///< the first layer of attention
  bool attention_output;  ///< the last layer of attention
  bool feed_forward;      ///< the layers of the feed-forward network

  /// Sets all layers, or none.
  constexpr LayerBiases(bool all)  // NOLINT: implicit, so that `.bias = false` works
      : query_key_value{all},
        attention_output{all},
        feed_forward{all}
  {
  }
  friend constexpr bool operator==(const LayerBiases&, const LayerBiases&) = default;
};

/// The texts of the files from which a configuration was read, so that a save keeps their keys, and
/// the family that config.json names. They say nothing more about the model, so all sources compare
/// equal.
struct ConfigSource
{
  std::string text;             ///< config.json; empty for a configuration that was not read
  std::string family = {};      ///< "model_type", which names the tensors of the model's files
  std::string generation = {};  ///< generation_config.json; empty if there was none

  friend bool operator==(const ConfigSource&, const ConfigSource&) { return true; }
};

/// A transformer's sizes, and what its blocks are made of.
struct TransformerConfig
{
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  ///< the number of tokens in the longest sequence
  std::size_t width = 0;      ///< the width of the residual stream
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  ///< 0: as many as heads
  std::size_t head_size = 0;        ///< 0: width / heads
  std::size_t feed_forward = 0;     ///< 0: 4 width
  /// Whether positions are learned, as in GPT-2; otherwise Q and K are rotated by their positions.
  bool learned_positions = true;
  double rotary_base = 10000;         ///< the base of rotary angles
  RotaryScaling rotary_scaling = {};  ///< how their frequencies are scaled
  /// The share of a head's elements that is rotated, counted from the first element.
  double rotary_fraction = 1;
  TransformerKind kind = TransformerKind::gpt;  ///< GPT-2's or Llama's blocks
  double epsilon = 1e-5;                        ///< epsilon of the norms
  LayerBiases bias = true;  ///< which linear layers have a bias: all, none, or some
  /// Whether the logits use the table of the embedding.
  bool tied = true;
  /// The tokens that end a text; `generate` stops after them.
  std::vector<int> end_ids = {};
  /// Whether Q and K pass through an RMSNorm, head by head, before they are rotated.
  bool head_norms = false;
  /// The activation of TransformerKind::gpt.
  FeedForwardActivation activation = FeedForwardActivation::approximate_gelu;
  /// Whether the scores of layer i, from 0, are divided by i + 1.
  bool scale_by_layer = false;
  /// The number of tokens that a token sees, itself included; 0: all before it. cubist computes
  /// only sequences that are no longer than this.
  std::size_t window = 0;
  ConfigSource source = {};  ///< the files from which it was read

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;

  /// Returns the configuration with all sizes filled in. Networks, plans and files are made from
  /// complete configurations.
  /// @throws ShapeError for sizes of 0, for heads that do not fit the width or one another, and for
  /// more parameters than any machine can hold; ArgumentError for rotary positions out of range
  [[nodiscard]] TransformerConfig completed() const
  {
    require<ShapeError>(vocabulary > 0 && positions > 0 && width > 0 && layers > 0 && heads > 0,
                        "got a transformer of ", vocabulary, " tokens, ", positions,
                        " positions, width ", width, ", ", layers, " layers and ", heads,
                        " heads, which computes nothing; give it at least one of each");
    const auto of_width = detail::AttentionHeads{heads, key_value_heads, head_size}.complete(width);
    TransformerConfig c = *this;
    c.key_value_heads = of_width.key_value_heads;
    c.head_size = of_width.size;
    if (feed_forward == 0) c.feed_forward = 4 * width;
    const double parameters = c.count_parameters();
    require<ShapeError>(parameters < 0x1p50, "got a transformer of about ", parameters,
                        " parameters, which no machine can hold; check its sizes");
    rotary_scaling.check();
    require<ArgumentError>(
        rotary_fraction > 0 && rotary_fraction <= 1, "got a share of ", rotary_fraction,
        " of each head to rotate, but it must be above 0 and at most 1; use 1 for all");
    return c;
  }
  /// @throws as completed()
  void check() const { static_cast<void>(completed()); }

  /// The number of elements of all parameters; a tied table counts once.
  /// @throws as completed()
  [[nodiscard]] std::size_t parameters() const
  {
    return static_cast<std::size_t>(completed().count_parameters());
  }
  /// The number of elements that are rotated in a head of this size.
  [[nodiscard]] std::size_t rotated_size(std::size_t of_head) const
  {
    return static_cast<std::size_t>(static_cast<double>(of_head) * rotary_fraction);
  }

  // The following functions need a complete configuration.

  /// The number of query heads that share a head of keys and values.
  [[nodiscard]] std::size_t group() const { return heads / key_value_heads; }
  /// The number of columns of Q.
  [[nodiscard]] std::size_t query_width() const { return heads * head_size; }
  /// The number of columns of K and of V.
  [[nodiscard]] std::size_t key_value_width() const { return key_value_heads * head_size; }
  /// Whether the feed-forward network has a gate beside its first layer.
  [[nodiscard]] bool is_gated() const { return kind == TransformerKind::llama; }
  /// The number of a norm's parameters: its weight, and LayerNorm's bias.
  [[nodiscard]] std::size_t norm_vectors() const { return kind == TransformerKind::gpt ? 2 : 1; }
  /// The number of columns of the widest activations.
  [[nodiscard]] std::size_t widest() const
  {
    return std::max({width, vocabulary, query_width() + 2 * key_value_width(),
                     (is_gated() ? 2 : 1) * feed_forward});
  }

 private:
  /// Counts in double, because a product of unchecked sizes may not fit into 64 bits.
  [[nodiscard]] double count_parameters() const
  {
    const auto w = static_cast<double>(width), size = static_cast<double>(head_size);
    const double q = static_cast<double>(heads) * size;
    const double kv = static_cast<double>(key_value_heads) * size;
    const double up = (is_gated() ? 2 : 1) * static_cast<double>(feed_forward);
    const double norm = static_cast<double>(norm_vectors()) * w;
    const double attention = w * (2 * q + 2 * kv) + (bias.query_key_value ? q + 2 * kv : 0) +
                             (bias.attention_output ? w : 0);
    const double inner =
        w * (up + static_cast<double>(feed_forward)) + (bias.feed_forward ? up + w : 0);
    const double block = attention + inner + 2 * norm + (head_norms ? 2 * size : 0);
    const double tables = (tied ? 1 : 2) * static_cast<double>(vocabulary) +
                          (learned_positions ? static_cast<double>(positions) : 0);
    return tables * w + static_cast<double>(layers) * block + norm;
  }
};

namespace detail
{

/// Returns the costs of the blocks for cutting them into stages (model/pipeline_options.hpp): the
/// elements of their matrices, divided by the width. The logits count as part of the last block.
[[nodiscard]] inline std::vector<double> block_costs(const TransformerConfig& c)
{
  const std::size_t attention = 2 * (c.query_width() + c.key_value_width());
  const std::size_t inner = (c.is_gated() ? 3 : 2) * c.feed_forward;
  std::vector<double> costs(c.layers, static_cast<double>(attention + inner));
  costs.back() += static_cast<double>(c.vocabulary);
  return costs;
}

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
