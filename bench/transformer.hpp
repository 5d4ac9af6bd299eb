// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Training steps of a GPT, beside the products that are in them by BLAS on all cores, and beside
// PyTorch's.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "job.hpp"
#include "row.hpp"
#include "step_products.hpp"

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
  std::string optimizer = "adamw";
  bool torch = false;  // whether to measure PyTorch's, where it is installed
  bool gpu = false;    // on a GPU

  /// Of linear layers, of logits, and of attention, of which a token needs half: the keys before
  /// it.
  [[nodiscard]] std::vector<StepProduct> step_products() const
  {
    const std::size_t tokens = sequences * length;
    const std::size_t scores = layers * sequences * heads;
    return {{{tokens, 3 * width, width}, true, layers},
            {{tokens, width, width}, true, layers},
            {{tokens, 4 * width, width}, true, layers},
            {{tokens, width, 4 * width}, true, layers},
            {{tokens, vocabulary, width}},
            {{length, length / 2, width / heads}, true, 2 * scores}};
  }
};

/// The options of peers/torch_transformer.py for the same step.
[[nodiscard]] std::string torch_options(const TransformerTask& task);

/// Takes steps; every process calls it, the first one gets the row.
[[nodiscard]] std::optional<Row> transformer_on(const Job& job, const TransformerTask& task);
[[nodiscard]] std::optional<Row> transformer_on_mpi(const TransformerTask& task);

/// Adds the subcommand, which sets `action`.
void add_transformer(CLI::App& app, Action& action);

}  // namespace bench
