// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A training step of an MLP, run and replayed: forward with its loss, backward, Adam. It is
// measured beside PyTorch's step, its CUDA graph and torch.compile.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/times.hpp"
#include "common/torch.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct StepTask
{
  std::size_t tokens = 0;
  std::vector<std::size_t> layers;  // features of the input, between the layers, and of the output
  std::string scalar;
  std::string activation;
  int ranks = 1;
  int repeats = 20;
  int warm_up = 3;
  bool torch = false;  // whether to measure PyTorch's step, where it is installed
};

/// Seconds from an idle GPU to an idle GPU, by the clock of rank 0.
struct StepTimes
{
  Times forward, backward, optimizer;  // forward includes the loss
  Times run;                           // the whole step
  Times replayed;
  std::array<TorchResult, 3> torch;  // one for each of torch_modes
};

inline const std::array<std::string, 3> torch_modes{"eager", "graph", "compile"};

/// Returns the options of peers/torch_step.py for the same step.
[[nodiscard]] std::string torch_options(const StepTask& task, const std::string& mode);

/// Runs the benchmark. Every process calls it; the first one gets the times.
[[nodiscard]] std::optional<StepTimes> step_on(const Job& job, const StepTask& task);

/// Adds the subcommand, which sets `action`.
void add_step(CLI::App& app, Action& action);

}  // namespace bench
