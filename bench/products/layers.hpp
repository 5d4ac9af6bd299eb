// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The products of a layer, forward and backward, on every mesh of every scheme. They are measured,
// or the simulator predicts them for a machine that a file describes.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/machine/machine.hpp>

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

/// A layer on a mesh.
struct LayerPoint
{
  std::string scheme;
  std::vector<int> mesh;
  cubist::ProductSize size;
  bool overlap = true;
};

struct LayersTask
{
  int ranks = 1;
  std::vector<LayerPoint> points;
  int repeats = 3;
  double sample_seconds = 0.3;        // shortest time for a run, which has one step or several
  std::string trace = {};             // file for a trace of one more step; only if simulated
  std::vector<int> trace_ranks = {};  // ranks that the trace shows; empty: the first ones
};

/// Measures the seconds of each point. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<std::vector<double>> layers_on_threads(const LayersTask& task);
[[nodiscard]] std::optional<std::vector<double>> layers_on_mpi(const LayersTask& task);
/// Simulates the seconds of each point.
[[nodiscard]] std::vector<double> simulate_layers(const LayersTask& task,
                                                  const cubist::Machine& machine);

/// Adds the subcommand, which sets `action`.
void add_layers(CLI::App& app, Action& action);

}  // namespace bench
