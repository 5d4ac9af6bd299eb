// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Settings and results that products, networks and scaling share.

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <cubist/core/block.hpp>
#include <cubist/scheme/scheme.hpp>

#include "common/job.hpp"
#include "common/times.hpp"
#include "common/torch.hpp"
#include "meter/core_times.hpp"

namespace bench
{

/// Returns the operations of a product in units of 10^9: 2e-9 m n k.
[[nodiscard]] inline double giga_operations(cubist::ProductSize s)
{
  return 2e-9 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
}

/// Where and how many times something runs.
struct Setting
{
  std::string scheme;
  std::string scalar;
  std::vector<int> mesh = {};  // empty: it follows from the ranks
  int ranks = 1;
  int threads_per_rank = 0;  // BLAS threads; 0: the rank's share of the cores
  int repeats = 5;
  int warm_up = 1;
  bool overlap = true;  // messages between nodes overlap with computation
  cubist::Method method = cubist::Method::automatic;
  std::string trace = {};  // file for a trace of one more step of a network
};

/// Shares of a rank's time, averaged over the ranks.
struct Shares
{
  double gemm = 0;  // includes waiting for a core where ranks outnumber cores
  double elementwise = 0;
  double communication = 0;  // with a processor: copies, sums, polling for messages
  double waiting = 0;        // in communication without a processor
};

/// What one run on all ranks costs.
struct Cost
{
  Times total;               // of the slowest rank
  double communication = 0;  // seconds, averaged over the ranks; includes waiting for others
  double most_words = 0;     // elements that the busiest rank sends
  double mean_words = 0;
  double most_messages = 0;
  Shares shares = {};  // zeros unless they were asked for

  [[nodiscard]] double compute() const { return total.median - communication; }
};

struct Row
{
  std::string scheme;
  std::string mesh;
  cubist::Method method = cubist::Method::collectives;
  double giga_operations = 0;  // 10^9 operations in one run
  Cost cost = {};
  double formula_words = 0;  // elements that one rank sends by the formula, averaged over the ranks
  Times blas = {};           // the same products by BLAS on all cores of one machine
  Times local = {};          // each rank only multiplies a product as large as its block of Y
  Times apart = {};          // each rank does that, and sends as many elements at the same time
  Times paged = {};          // BLAS on all cores, with operands in the engine's memory
  Times scalapack = {};      // ScaLAPACK with its best block size
  int scalapack_block = 0;   // 0: not measured
  TorchResult torch = {};    // the same step of a network by PyTorch
  CoreTimes machine = {};    // what the cores did in a step of the trace, if there is one
  int gpus = 0;              // GPUs of the ranks; 0: ranks compute on processors

  [[nodiscard]] double gflops(const Times& times) const { return giga_operations / times.median; }
  /// The speed of ranks that multiply alone relative to BLAS on all cores: an upper bound for every
  /// algorithm whose ranks share cores.
  [[nodiscard]] double local_ratio(const Job& job) const
  {
    return local.median > 0 ? blas.median / local.median / job.machines : 0;
  }
  /// The speed of BLAS in the engine's memory relative to BLAS in ordinary memory.
  [[nodiscard]] double paged_ratio() const
  {
    return paged.median > 0 ? blas.median / paged.median : 0;
  }
  /// cubist's speed relative to that of BLAS on all machines or GPUs, were that possible.
  [[nodiscard]] double ratio(const Job& job) const
  {
    return blas.median / cost.total.median / (gpus > 0 ? gpus : job.machines);
  }
};

/// Returns the method's name on the command line, such as "direct".
[[nodiscard]] const char* to_string(cubist::Method method);
[[nodiscard]] cubist::Method parse_method(const std::string& text);

[[nodiscard]] nlohmann::json to_json(const Job& job, const Setting& setting, const Row& row);

/// Adds PyTorch's times, or null if PyTorch was not measured.
void add_torch(nlohmann::json& json, const Row& row);

/// Returns the sizes as text, each after a space: " 256 1024 256".
[[nodiscard]] std::string sizes_text(const std::vector<std::size_t>& sizes);

/// Prints the heads of the columns that all tables begin with, without the end of the line.
void print_header(const Job& job, int repeats, const char* what);
void print_row(const Job& job, const Setting& setting, const Row& row, const std::string& what);
/// Prints PyTorch's column and the end of the line.
void end_row_with_torch(const Row& row);

}  // namespace bench
