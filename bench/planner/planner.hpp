// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures the planner's choice beside every other mesh of every scheme.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include <cubist/core/block.hpp>
#include <cubist/machine/machine.hpp>
#include <cubist/plan/plan.hpp>

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct PlannerTask
{
  int ranks = 1;
  std::vector<cubist::ProductSize> sizes;
  int repeats = 3;        // runs of every mesh
  int final_repeats = 9;  // runs of the planner's choice and of the fastest others, alternately
  double sample_seconds = 0.1;  // shortest time for each of these
  bool training = true;         // forward and backward; if false, forward alone
  bool all_ranks = false;       // only meshes that leave no rank idle
  bool data_parallel = false;   // also meshes with a data axis
  cubist::Method method = cubist::Method::automatic;
  std::optional<cubist::Machine> machine;  // measured if left out
  int nodes = 1;
  int machines = 1;  // each may run several nodes
  bool overlap = true;
};

/// A mesh with the predicted and the measured seconds of a layer.
struct Candidate
{
  cubist::Plan plan;
  double seconds = 0;
};

struct PlannerRow
{
  cubist::ProductSize size;
  Candidate choice;
  Candidate fastest;
  std::vector<Candidate> all;

  [[nodiscard]] double ratio() const { return choice.seconds / fastest.seconds; }
};

struct PlannerResult
{
  cubist::Machine machine;
  std::vector<PlannerRow> rows;
};

/// Runs the benchmark. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<PlannerResult> planner_on_threads(const PlannerTask& task);
[[nodiscard]] std::optional<PlannerResult> planner_on_mpi(const PlannerTask& task);

/// Adds the subcommand, which sets `action`.
void add_planner(CLI::App& app, Action& action);

}  // namespace bench
