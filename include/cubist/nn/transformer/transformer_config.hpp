// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The sizes and kinds of a transformer's parts. families.hpp says which models of Hugging Face have
// which.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/nn/functions/rotary_scaling.hpp"

namespace cubist::CUBIST_ABI
{

/// The norm before each layer.
enum class Norm : std::uint8_t
{
  layer_norm,  ///< mean and variance, a weight and a bias
  rms_norm     ///< the root mean square, and a weight
};

/// The activation of a feed-forward network without a gate.
enum class FeedForwardActivation : std::uint8_t
{
  approximate_gelu,  ///< gelu_tanh, as GPT-2 has it
  exact_gelu,        ///< gelu
  rectified,         ///< relu
  sigmoid_weighted   ///< silu
};

/// The texts of the files that a configuration was read from, so that a save keeps their keys, and
/// the family that config.json names. They add nothing to what the configuration says about the
/// model, so all compare as equal.
struct ConfigSource
{
  std::string text;             ///< config.json; empty for a configuration that was not read
  std::string family = {};      ///< "model_type", which names the tensors of the model's files
  std::string generation = {};  ///< generation_config.json; empty without one

  friend bool operator==(const ConfigSource&, const ConfigSource&) { return true; }
};

/// A transformer's sizes, and what its blocks are made of.
struct TransformerConfig
{
  std::size_t vocabulary = 0;
  std::size_t positions = 0;  // the tokens of the longest sequence
  std::size_t width = 0;
  std::size_t layers = 0;
  std::size_t heads = 0;
  std::size_t key_value_heads = 0;  // 0: as many as heads
  std::size_t head_size = 0;        // 0: width / heads
  std::size_t feed_forward = 0;     // 0: 4 width
  /// Positions are learned, as in GPT-2; otherwise Q and K are rotated by their positions.
  bool learned_positions = true;
  double rotary_base = 10000;         ///< the base of rotary angles
  RotaryScaling rotary_scaling = {};  ///< how their frequencies are scaled
  /// The share of a head's elements that is rotated, the first ones.
  double rotary_fraction = 1;
  Norm norm = Norm::layer_norm;  ///< the norm of each block
  double epsilon = 1e-5;
  /// The feed-forward network is SwiGLU; otherwise it has `activation`.
  bool gated = false;
  /// All linear layers have a bias.
  bool bias = true;
  /// The logits use the table of the embedding.
  bool tied = true;
  /// The tokens that end a text; `generate` stops behind them.
  std::vector<int> end_ids = {};
  /// Which linear layers have a bias, if not all have one.
  bool query_key_value_bias = false;
  bool attention_output_bias = false;  ///< the output of attention
  bool feed_forward_bias = false;      ///< the layers of the feed-forward network
  /// Q and K pass through an RMSNorm, a head at a time, before they are rotated.
  bool head_norms = false;
  /// The activation of a feed-forward network that has no gate.
  FeedForwardActivation activation = FeedForwardActivation::approximate_gelu;
  /// The scores of layer i, from 0, are divided by i + 1.
  bool scale_by_layer = false;
  /// A token sees this many tokens, itself and those before it; 0: all. cubist computes sequences
  /// that are no longer than this.
  std::size_t window = 0;
  ConfigSource source = {};  ///< where it was read

  friend bool operator==(const TransformerConfig&, const TransformerConfig&) = default;

  /// How many elements of a head of this size are rotated.
  [[nodiscard]] std::size_t rotated_size(std::size_t of_head) const
  {
    return static_cast<std::size_t>(static_cast<double>(of_head) * rotary_fraction);
  }

  /// @throws ShapeError for sizes of 0, and for more parameters than any machine can hold;
  /// ArgumentError for rotary positions out of range
  void check() const
  {
    require<ShapeError>(vocabulary > 0 && positions > 0 && width > 0 && layers > 0 && heads > 0,
                        "got a transformer of ", vocabulary, " tokens, ", positions,
                        " positions, width ", width, ", ", layers, " layers and ", heads,
                        " heads, which computes nothing; give it at least one of each");
    // In double, since the products may not fit 64 bits.
    const auto w = static_cast<double>(width);
    const double attention = std::max(w, static_cast<double>(heads) * double(head_size));
    const double inner = feed_forward == 0 ? 4 * w : static_cast<double>(feed_forward);
    const double parameters =
        w * (double(vocabulary) + (learned_positions ? double(positions) : 0) +
             double(layers) * (2 * attention + (gated ? 3 : 2) * inner));
    require<ShapeError>(parameters < 0x1p50, "got a transformer of about ", parameters,
                        " parameters, which no machine can hold; check its sizes");
    rotary_scaling.check();
    require<ArgumentError>(rotary_fraction > 0 && rotary_fraction <= 1, "got a share of ",
                           rotary_fraction,
                           " of each head to rotate, which is not between 0 and 1; use 1 for all");
  }
};

}  // namespace cubist::CUBIST_ABI
