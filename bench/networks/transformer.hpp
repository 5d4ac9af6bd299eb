// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures training steps of a GPT beside the same products by BLAS on all cores, and beside
// PyTorch's steps.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubist/model/transformer_config.hpp>

#include "common/job.hpp"
#include "common/row.hpp"
#include "networks/step_products.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct TransformerTask
{
  Setting on;
  std::size_t sequences = 8;
  std::size_t length = 256;
  std::size_t layers = 4;
  std::size_t width = 512;
  std::size_t heads = 8;
  std::size_t vocabulary = 256;
  std::size_t key_value_heads = 0;  // 0: as many as heads
  std::size_t feed_forward = 0;     // 0: four times the width
  bool llama = false;               // a block like Llama's: RMSNorm, SwiGLU, RoPE, no bias
  bool forward = false;             // only forward and loss
  std::string optimizer = "adamw";
  bool torch = false;      // whether to measure PyTorch's step, too, where it is installed
  bool gpu = false;        // whether the ranks have GPUs
  bool breakdown = false;  // whether to trace steps for a breakdown

  /// The configuration of the model.
  [[nodiscard]] cubist::TransformerConfig config() const
  {
    cubist::TransformerConfig c{.vocabulary = vocabulary,
                                .positions = length,
                                .width = width,
                                .layers = layers,
                                .heads = heads,
                                .key_value_heads = key_value_heads,
                                .feed_forward = feed_forward};
    if (!llama) return c;
    c.kind = cubist::TransformerKind::llama;
    c.learned_positions = false;
    c.bias = false;
    return c;
  }

  /// The products of linear layers, logits, and attention. Attention counts half, because a token
  /// only needs the keys before it.
  [[nodiscard]] std::vector<StepProduct> step_products() const
  {
    const auto c = config().completed();
    const std::size_t tokens = sequences * length;
    const std::size_t scores = layers * sequences * heads;
    const std::size_t queries_keys_values = c.query_width() + 2 * c.key_value_width();
    const std::size_t up = (c.is_gated() ? 2 : 1) * c.feed_forward;
    std::vector<StepProduct> all{{{tokens, queries_keys_values, width}, true, layers},
                                 {{tokens, width, c.query_width()}, true, layers},
                                 {{tokens, up, width}, true, layers},
                                 {{tokens, width, c.feed_forward}, true, layers},
                                 {{tokens, vocabulary, width}},
                                 {{length, length / 2, c.head_size}, true, 2 * scores}};
    for (auto& product : all) product.backward = !forward;
    return all;
  }

  /// Takes the sizes of a well-known model, by its name on the command line.
  void take_model(const std::string& name)
  {
    if (name == "gpt2")  // GPT-2 small
      sequences = 4, length = 512, layers = 12, width = 768, heads = 12, vocabulary = 50'257;
    if (name == "llama-block")  // of Llama 3.2 1B
    {
      sequences = 4, length = 512, layers = 1, width = 2048, heads = 32, vocabulary = 256;
      key_value_heads = 8, feed_forward = 8192, llama = true;
    }
  }
};

/// Returns the options of peers/torch_transformer.py for the same step.
[[nodiscard]] std::string torch_options(const TransformerTask& task);

/// Runs the benchmark. Every process calls it; the first one gets the row.
[[nodiscard]] std::optional<Row> transformer_on(const Job& job, const TransformerTask& task);
[[nodiscard]] std::optional<Row> transformer_on_mpi(const TransformerTask& task);

/// Adds the subcommand, which sets `action`.
void add_transformer(CLI::App& app, Action& action);

}  // namespace bench
