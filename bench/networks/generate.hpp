// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Tokens that a GPT generates with a cache of keys and values, beside PyTorch's, and the rate at
// which its weights are read beside that of a copy of as many bytes.

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

/// The usual sizes are GPT-2 small's.
struct GenerateTask
{
  Setting on;
  std::size_t sequences = 1;
  std::size_t prompt = 32;
  std::size_t tokens = 32;  // that follow it
  std::size_t layers = 12;
  std::size_t width = 768;
  std::size_t heads = 12;
  std::size_t vocabulary = 50'257;
  std::string weights = "float";  // how linear layers store them
  bool torch = false;             // whether to measure PyTorch's, where it is installed
};

struct GenerateRow
{
  std::string scheme;
  std::string mesh;
  Times token = {};         // a token of each sequence, without the prompt and the first token
  double weight_bytes = 0;  // that all ranks read for it
  Times copy = {};          // of half as many, which reads and writes as many
  TorchResult torch = {};   // a token
};

/// Generates; every process calls it, the first one gets the row.
[[nodiscard]] std::optional<GenerateRow> generate_on(const Job& job, const GenerateTask& task);
[[nodiscard]] std::optional<GenerateRow> generate_on_mpi(const GenerateTask& task);

/// The options of peers/torch_generate.py for the same model.
[[nodiscard]] std::string torch_options(const GenerateTask& task);

/// Adds the subcommand, which sets `action`.
void add_generate(CLI::App& app, Action& action);

}  // namespace bench
