// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures how fast a GPT generates tokens with a cache of keys and values, beside PyTorch, and how
// fast it reads its weights, beside a copy of as many bytes.

#include <cstddef>
#include <optional>
#include <string>

#include "common/job.hpp"
#include "common/row.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// What to generate. The default sizes are those of GPT-2 small.
struct GenerateTask
{
  Setting on;
  std::size_t sequences = 1;
  std::size_t prompt = 32;
  std::size_t tokens = 32;  // generated tokens after the prompt
  std::size_t layers = 12;
  std::size_t width = 768;
  std::size_t heads = 12;
  std::size_t vocabulary = 50'257;
  std::string weights = "float";  // how linear layers store them
  bool torch = false;             // whether to measure PyTorch, too, where it is installed
};

struct GenerateRow
{
  std::string scheme;
  std::string mesh;
  Times token = {};  // one more token of each sequence; excludes the prompt and the first token
  double weight_bytes = 0;  // bytes of weights that all ranks read for it
  Times copy = {};          // a copy that reads and writes as many bytes in all
  TorchResult torch = {};   // a token by PyTorch
};

/// Runs the benchmark. Every process calls it; the first one gets the row.
[[nodiscard]] std::optional<GenerateRow> generate_on(const Job& job, const GenerateTask& task);
[[nodiscard]] std::optional<GenerateRow> generate_on_mpi(const GenerateTask& task);

/// Returns the options of peers/torch_generate.py for the same model.
[[nodiscard]] std::string torch_options(const GenerateTask& task);

/// Adds the subcommand, which sets `action`.
void add_generate(CLI::App& app, Action& action);

}  // namespace bench
