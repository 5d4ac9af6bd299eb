// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "common/options.hpp"
#include "products/matmul.hpp"
#include "products/scaling.hpp"

namespace bench
{

namespace
{

struct ScalingOptions : Options
{
  std::string mode = "strong";
  std::string grow = "m";
  std::string shape = "4096x4096x4096";
  std::vector<int> counts;  // numbers of ranks; empty: 1, 2, 4, … up to all, or to 8 threads
  std::string extents = "usual";
  int threads_per_rank = 0;
  std::string scalapack = "auto";
  std::string simulated;  // file of the machine to simulate; empty: measure
};

std::vector<int> counts_of(const Job& job, const ScalingOptions& options)
{
  const bool simulated = !job.simulated.empty();
  const int most = simulated ? 4096 : job.mpi ? job.processes : 8;
  auto counts = options.counts;
  if (counts.empty())
    for (int ranks = 1; ranks <= most; ranks *= simulated ? 8 : 2) counts.push_back(ranks);
  std::sort(counts.begin(), counts.end());
  cubist::require<cubist::ArgumentError>(
      !job.mpi || counts.back() <= most, "got --rank-counts up to ", counts.back(),
      ", but MPI has ", most, " processes, and each is one rank; start more, or ask for fewer");
  return counts;
}

/// Returns the product for `ranks` ranks, where one rank computes `one`.
cubist::ProductSize grown(const ScalingOptions& options, cubist::ProductSize one, int ranks)
{
  if (options.mode == "strong") return one;
  if (options.grow == "m") return {one.m * static_cast<std::size_t>(ranks), one.n, one.k};
  const auto times = [edge = std::cbrt(ranks)](std::size_t n) {
    return static_cast<std::size_t>(std::lround(static_cast<double>(n) * edge));
  };
  return {times(one.m), times(one.n), times(one.k)};
}

/// Returns extents that are equal along all axes of the scheme; empty if this many ranks have no
/// such mesh.
std::vector<int> equal_extents(const std::string& scheme, int ranks)
{
  return cubist::with_scheme(scheme, [&]<class S>() -> std::vector<int> {
    typename S::Axes::Array extents{};
    extents.fill(static_cast<int>(std::lround(std::pow(ranks, 1.0 / S::Axes::count))));
    if (S::Axes::ranks(extents) != ranks || !S::fits(extents)) return {};
    return {extents.begin(), extents.end()};
  });
}

using MachineToSimulate = std::optional<cubist::Machine>;

/// Returns the number of threads that each of this many ranks can have; 0: BLAS decides.
int threads_for(const Job& job, const MachineToSimulate& machine, int ranks)
{
  if (machine) return machine->threads(ranks);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return job.mpi ? 0 : std::max(1, cores / ranks);
}

/// Returns the tasks of one scheme and scalar, on more and more ranks.
std::vector<MatmulTask> tasks_of(const Job& job, const MachineToSimulate& machine,
                                 const ScalingOptions& options, const std::string& scheme,
                                 const std::string& scalar, bool overlap)
{
  const auto one = parse_shape(options.shape);
  const auto counts = counts_of(job, options);
  const int share = threads_for(job, machine, counts.back());
  std::vector<MatmulTask> tasks;
  for (const int ranks : counts)
    if (fits(scheme, {}, ranks))
      tasks.push_back({Setting{.scheme = scheme,
                               .scalar = scalar,
                               .mesh = options.extents == "equal" ? equal_extents(scheme, ranks)
                                                                  : std::vector<int>{},
                               .ranks = ranks,
                               .threads_per_rank =
                                   options.threads_per_rank > 0 ? options.threads_per_rank : share,
                               .repeats = machine ? 1 : options.repeats,
                               .warm_up = options.warm_up,
                               .overlap = overlap,
                               .method = parse_method(options.method)},
                       grown(options, one, ranks), options.scalapack == "auto"});
  return tasks;
}

class Scaling
{
 public:
  Scaling(const Job& job, const ScalingOptions& options, const MachineToSimulate& machine)
      : job_{job},
        options_{options},
        machine_{machine},
        table_{job.first && options.json != "-"},
        result_(describe(job, "scaling"))
  {
    if (machine_) result_["machine"] = cubist::to_json(*machine_);
  }

  void run()
  {
    const auto on = overlaps(job_, options_);
    if (table_) print_header(job_, machine_ ? 1 : options_.repeats, "m x n x k");
    if (table_)
      std::printf(" %9s %7s %8s %10s\n", "ScaLAPACK", "overlap", "speed-up", "efficiency");
    for (const auto& scheme : options_.schemes)
      for (const auto& scalar : options_.scalars)
        for (const bool overlap : on)
          run(tasks_of(job_, machine_, options_, scheme, scalar, overlap));
    if (job_.first) write_json(result_, options_.json);
  }

 private:
  /// Runs the tasks. Speeds are compared with that of the first, which counts as perfect.
  void run(const std::vector<MatmulTask>& tasks)
  {
    double per_rank = 0;
    for (const auto& task : tasks)
    {
      const auto row = machine_ ? simulate_matmul(task, *machine_) : matmul_on(job_, task);
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
      if (machine_)
      {
        json["machine"] = machine_->name;
        const int on_a_node = machine_->on_a_node(task.on.ranks);
        json["nodes"] = (task.on.ranks + on_a_node - 1) / on_a_node;
      }
      result_["rows"].push_back(json);
    }
  }

  const Job& job_;
  const ScalingOptions& options_;
  const MachineToSimulate& machine_;
  bool table_;
  nlohmann::json result_;
};

void run_scaling(Job job, const ScalingOptions& options)
{
  MachineToSimulate machine;
  if (!options.simulated.empty())
  {
    cubist::require<cubist::ArgumentError>(
        !job.mpi, "got --simulated under mpiexec, but each of the ", job.processes,
        " processes would simulate all ranks; start cubist_bench alone");
    machine = cubist::read_machine(cubist::find_machine(options.simulated));
    job.simulated = machine->name;
  }
  Scaling{job, options, machine}.run();
}

}  // namespace

void add_scaling(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<ScalingOptions>();
  options->schemes = {"Summa2D", "Summa25D"};
  options->scalars = {"double"};
  auto* command = app.add_subcommand("scaling", "measures one product on more and more ranks");
  add_scheme_options(*command, *options);
  command
      ->add_option("--mode", options->mode,
                   "strong: the product stays the same; weak: the work of each rank does")
      ->check(CLI::IsMember({"strong", "weak"}))
      ->capture_default_str();
  command
      ->add_option("--shape", options->shape,
                   "the product, or for weak scaling the product of one rank, as MxNxK")
      ->capture_default_str();
  command
      ->add_option("--grow", options->grow,
                   "for weak scaling, what grows with the ranks: m, or all three by the cube root")
      ->check(CLI::IsMember({"m", "all"}))
      ->capture_default_str();
  command
      ->add_option("--rank-counts", options->counts,
                   "the numbers of ranks; by default powers of two")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command
      ->add_option(
          "--extents", options->extents,
          "the extents of the meshes; equal: as many ranks along each axis, if there is such a "
          "mesh")
      ->check(CLI::IsMember({"usual", "equal"}))
      ->capture_default_str();
  command
      ->add_option(
          "--threads-per-rank", options->threads_per_rank,
          "the number of BLAS threads of each rank; by default as many as the largest number of "
          "ranks allows")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--scalapack", options->scalapack,
                   "auto: also measure ScaLAPACK if it was found")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command->add_option(
      "--simulated", options->simulated,
      "predict the seconds on the machine of this file instead of measuring; by default for 1, 8, "
      "64, 512 and 4096 ranks");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_scaling(job, *options); }; });
}

}  // namespace bench
