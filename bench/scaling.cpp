// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "matmul.hpp"
#include "options.hpp"
#include "scaling.hpp"

namespace bench
{

namespace
{

struct ScalingOptions : Options
{
  std::string mode = "strong";
  std::string grow = "m";
  std::string shape = "4096x4096x4096";
  std::vector<int> counts;  // of ranks; empty: 1, 2, 4, … up to all, or to 8 threads
  int threads_per_rank = 0;
  std::string scalapack = "auto";
};

std::vector<int> counts_of(const Job& job, const ScalingOptions& options)
{
  const int most = job.mpi ? job.processes : 8;
  auto counts = options.counts;
  if (counts.empty())
    for (int ranks = 1; ranks <= most; ranks *= 2) counts.push_back(ranks);
  std::sort(counts.begin(), counts.end());
  cubist::require<cubist::ArgumentError>(
      !job.mpi || counts.back() <= most, "got --rank-counts up to ", counts.back(),
      ", but MPI has ", most,
      " processes, each of which is one rank; start more, or ask for fewer");
  return counts;
}

/// The product that `ranks` ranks get, where one rank gets `one`.
cubist::ProductSize grown(const ScalingOptions& options, cubist::ProductSize one, int ranks)
{
  if (options.mode == "strong") return one;
  if (options.grow == "m") return {one.m * static_cast<std::size_t>(ranks), one.n, one.k};
  const auto times = [edge = std::cbrt(ranks)](std::size_t n) {
    return static_cast<std::size_t>(std::lround(static_cast<double>(n) * edge));
  };
  return {times(one.m), times(one.n), times(one.k)};
}

/// The tasks of one scheme and scalar, for more and more ranks.
std::vector<MatmulTask> tasks_of(const Job& job, const ScalingOptions& options,
                                 const std::string& scheme, const std::string& scalar, bool overlap)
{
  const auto one = parse_shape(options.shape);
  const auto counts = counts_of(job, options);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int share = job.mpi ? 0 : std::max(1, cores / counts.back());
  std::vector<MatmulTask> tasks;
  for (const int ranks : counts)
    if (fits(scheme, {}, ranks))
      tasks.push_back({Setting{.scheme = scheme,
                               .scalar = scalar,
                               .ranks = ranks,
                               .threads_per_rank =
                                   options.threads_per_rank > 0 ? options.threads_per_rank : share,
                               .repeats = options.repeats,
                               .warm_up = options.warm_up,
                               .overlap = overlap,
                               .method = parse_method(options.method)},
                       grown(options, one, ranks), options.scalapack == "auto"});
  return tasks;
}

class Scaling
{
 public:
  Scaling(const Job& job, const ScalingOptions& options)
      : job_{job}, options_{options}, table_{job.first && options.json != "-"},
        result_(describe(job, "scaling"))
  {
  }

  void run()
  {
    const auto on = overlaps(job_, options_);
    if (table_) print_header(job_, options_.repeats, "m x n x k");
    if (table_)
      std::printf(" %9s %7s %8s %10s\n", "ScaLAPACK", "overlap", "speed-up", "efficiency");
    for (const auto& scheme : options_.schemes)
      for (const auto& scalar : options_.scalars)
        for (const bool overlap : on) run(tasks_of(job_, options_, scheme, scalar, overlap));
    if (job_.first) write_json(result_, options_.json);
  }

 private:
  /// Speeds are compared with the first task's, which counts as perfect.
  void run(const std::vector<MatmulTask>& tasks)
  {
    double per_rank = 0;
    for (const auto& task : tasks)
    {
      const auto row = matmul_on(job_, task);
      if (!row) continue;
      const double speed = row->gflops(row->cost.total);
      if (per_rank == 0) per_rank = speed / task.on.ranks;
      const double speed_up = speed / per_rank;
      const double efficiency = speed_up / task.on.ranks;
      if (table_)
      {
        print_row(job_, task.on, *row, to_string(task.size));
        print_scalapack(*row);
        std::printf(" %7s %8.2f %10.2f\n", task.on.overlap ? "on" : "off", speed_up, efficiency);
        std::fflush(stdout);
      }
      auto json = to_json(job_, task, *row);
      json["mode"] = options_.mode;
      json["grows"] = options_.mode == "strong" ? "nothing" : options_.grow;
      json["threads_per_rank"] = task.on.threads_per_rank;
      json["speed_up"] = speed_up;
      json["efficiency"] = efficiency;
      result_["rows"].push_back(json);
    }
  }

  const Job& job_;
  const ScalingOptions& options_;
  bool table_;
  nlohmann::json result_;
};

}  // namespace

void add_scaling(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<ScalingOptions>();
  options->schemes = {"Summa2D", "Summa25D"};
  options->scalars = {"double"};
  auto* command = app.add_subcommand("scaling", "one product on more and more ranks");
  add_scheme_options(*command, *options);
  command->add_option("--mode", options->mode, "the product, or the work of each rank, is constant")
      ->check(CLI::IsMember({"strong", "weak"}))
      ->capture_default_str();
  command->add_option("--shape", options->shape, "MxNxK: of the product, or of one rank's (weak)")
      ->capture_default_str();
  command
      ->add_option("--grow", options->grow,
                   "what grows with the ranks (weak): m alone, or all three by the cube root")
      ->check(CLI::IsMember({"m", "all"}))
      ->capture_default_str();
  command->add_option("--rank-counts", options->counts, "powers of two, if left out")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--threads-per-rank", options->threads_per_rank,
                   "of BLAS; left out, what the largest number of ranks allows")
      ->check(CLI::PositiveNumber);
  command->add_option("--scalapack", options->scalapack, "whether to measure it where there is one")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options](const Job& job) { Scaling{job, *options}.run(); };
  });
}

}  // namespace bench
