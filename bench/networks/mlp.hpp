// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures steps of an MLP beside the same products by BLAS on all cores.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/row.hpp"
#include "networks/step_products.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct MlpTask
{
  Setting on;
  std::size_t tokens = 0;
  std::vector<std::size_t>
      layers;  // features of the input, of each hidden layer, and of the output
  std::string activation;
  std::string optimizer;
  std::size_t recompute = 0;    // layers of a segment whose activations are recomputed
  bool input_gradient = false;  // whether backward computes dX in the first layer, too
  bool torch = false;           // whether to measure PyTorch's step, too, where it is installed
  bool gpu = false;             // whether the ranks have GPUs

  /// Whether backward runs forward again for layer i.
  [[nodiscard]] bool runs_twice(std::size_t i) const
  {
    return recompute > 0 && i / recompute < (layers.size() - 2) / recompute;
  }
  [[nodiscard]] std::vector<StepProduct> step_products() const
  {
    std::vector<StepProduct> all;
    for (std::size_t i = 0; i + 1 < layers.size(); ++i)
      all.push_back({{tokens, layers[i + 1], layers[i]}, input_gradient || i > 0});
    return all;
  }
};

/// Returns the options of peers/torch_mlp.py for the same step.
[[nodiscard]] std::string torch_options(const MlpTask& task);

/// Runs the benchmark. Every process calls it; the first one gets the row.
[[nodiscard]] std::optional<Row> mlp_on(const Job& job, const MlpTask& task);
[[nodiscard]] std::optional<Row> mlp_on_mpi(const MlpTask& task);

/// Adds the subcommand, which sets `action`.
void add_mlp(CLI::App& app, Action& action);

}  // namespace bench
