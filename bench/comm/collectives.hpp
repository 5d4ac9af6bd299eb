// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures latency and bandwidth of the collectives on all ranks, from one element to many. The
// planner reads the JSON as a machine.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/times.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct CollectivesTask
{
  int ranks = 1;
  int repeats = 5;
  int warm_up = 1;
  bool overlap = true;
  std::vector<std::size_t> words;  // elements of one piece
};

struct CollectiveRow
{
  std::string collective;
  std::size_t words = 0;
  Times times;
  double sent_words = 0;  // elements that the busiest rank sends, by the formulas
  double sent_messages = 0;

  /// 10^9 bytes that the busiest rank sends in a second.
  [[nodiscard]] double gigabytes_per_second() const { return 8e-9 * sent_words / times.median; }
};

struct CollectivesResult
{
  double gemm_gflops = 0;  // of one rank in double, while all ranks multiply
  std::vector<CollectiveRow> rows;
};

/// Runs the benchmark. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<CollectivesResult> collectives_on_threads(const CollectivesTask& task);
[[nodiscard]] std::optional<CollectivesResult> collectives_on_mpi(const CollectivesTask& task);

/// Adds the subcommand, which sets `action`.
void add_collectives(CLI::App& app, Action& action);

}  // namespace bench
