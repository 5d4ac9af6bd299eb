// SPDX-License-Identifier: BSD-3-Clause

#include <CLI/CLI.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "common/scalars.hpp"
#include "common/schemes.hpp"

namespace bench
{

namespace
{

/// Checks that the scheme has a mesh for this many ranks.
/// @throws cubist::MeshError if it has none
void require_fit(const std::string& scheme, const std::vector<int>& mesh, int ranks)
{
  cubist::with_scheme(scheme, [&]<class S>() { static_cast<void>(extents_for<S>(mesh, ranks)); });
}

int ranks_of_scheme(const Job& job, const Options& options, const std::string& scheme)
{
  int on_mesh = 1;
  for (const int extent : options.mesh) on_mesh *= extent;
  const int usual = cubist::with_scheme(scheme, []<class S>() { return usual_ranks<S>; });
  const int ranks = ranks_of(job, options, usual);
  return options.mesh.empty() || options.ranks != 0 ? ranks : on_mesh;
}

}  // namespace

void add_run_options(CLI::App& command, Options& options)
{
  command.add_option("--repeats", options.repeats, "the number of measured runs")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      .add_option("--warm-up", options.warm_up,
                  "the number of runs before these, which are not counted")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      .add_option("--overlap", options.overlap,
                  "whether messages between nodes overlap with computation (MPI, or simulated)")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  command.add_option("--json", options.json,
                     "write the results to this file; - for standard output");
}

void add_scheme_options(CLI::App& command, Options& options)
{
  command
      .add_option("--schemes", options.schemes, "the schemes; by default all that fit the ranks")
      ->delimiter(',')
      ->check(CLI::IsMember(cubist::scheme_name_list(), CLI::ignore_case));
  command.add_option("--scalars", options.scalars, "the types of the elements")
      ->delimiter(',')
      ->check(CLI::IsMember(GpuScalars::names()))
      ->capture_default_str();
  add_method_option(command, options);
  add_run_options(command, options);
}

void add_method_option(CLI::App& command, Options& options)
{
  command
      .add_option(
          "--method", options.method,
          "automatic: ranks read each other's memory if they can; collectives: they send messages")
      ->check(CLI::IsMember({"automatic", "collectives", "direct"}))
      ->capture_default_str();
}

void add_ranks_option(CLI::App& command, Options& options)
{
  command
      .add_option("--ranks", options.ranks,
                  "the number of ranks; by default all processes of MPI, or 4 or 8 threads")
      ->check(CLI::PositiveNumber);
}

void add_mesh_options(CLI::App& command, Options& options)
{
  add_ranks_option(command, options);
  command
      .add_option("--mesh", options.mesh,
                  "the extents of the mesh; by default they follow from the number of ranks")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
}

void add_torch_option(CLI::App& command, Options& options)
{
  command.add_option("--torch", options.torch, "auto: also measure PyTorch if it is installed")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
}

void explain_no_torch(const Job& job, const Options& options)
{
  if (options.torch == "auto")
    std::printf("PyTorch is not installed (%s), so there is nothing to compare with.\n",
                job.gpus > 0 ? "one for CUDA" : "Debian: python3-torch");
}

void add_trace_option(CLI::App& command, Options& options)
{
  command.add_option(
      "--trace", options.trace,
      "write a trace of one more step of the first ranks to this file, for ui.perfetto.dev");
}

void require_one_trace(const Options& options, std::size_t measurements)
{
  cubist::require<cubist::ArgumentError>(
      options.trace.empty() || measurements == 1, "got --trace for ", measurements,
      " measurements, but a trace shows only one; choose it with --schemes, --scalars, "
      "--mesh or --shapes");
}

std::vector<bool> overlaps(const Job& job, const Options& options)
{
  cubist::require<cubist::ArgumentError>(
      (job.mpi && job.gpus == 0) || !job.simulated.empty() || options.overlap == "on",
      "got --overlap ", options.overlap,
      ", but ranks that are threads send no messages, and those of ranks with GPUs always overlap; "
      "leave it out, or start cubist_bench under mpiexec");
  if (options.overlap == "both") return {true, false};
  return {options.overlap == "on"};
}

int ranks_of(const Job& job, const Options& options, int usual)
{
  cubist::require<cubist::ArgumentError>(
      !job.mpi || options.ranks <= job.processes, "got --ranks ", options.ranks, ", but MPI has ",
      job.processes, " processes, each of which is one rank; start more, or ask for fewer");
  if (options.ranks != 0) return options.ranks;
  if (job.mpi) return job.processes;
  return job.gpus > 0 ? job.gpus : usual;
}

bool fits(const std::string& scheme, const std::vector<int>& mesh, int ranks)
try
{
  require_fit(scheme, mesh, ranks);
  return true;
}
catch (const cubist::MeshError&)
{
  return false;
}

std::vector<Setting> settings_of(const Job& job, const Options& options)
{
  std::vector<Setting> settings;
  const bool named = !options.schemes.empty();
  for (const auto& scheme : named ? options.schemes : usual_schemes)
  {
    const int ranks = ranks_of_scheme(job, options, scheme);
    if (named)
      require_fit(scheme, options.mesh, ranks);
    else if (!fits(scheme, options.mesh, ranks))
      continue;
    for (const auto& scalar : options.scalars)
      settings.push_back({.scheme = scheme,
                          .scalar = scalar,
                          .mesh = options.mesh,
                          .ranks = ranks,
                          .repeats = options.repeats,
                          .warm_up = options.warm_up,
                          .method = parse_method(options.method),
                          .trace = options.trace});
  }
  cubist::require<cubist::MeshError>(
      !settings.empty(), "got ranks or a mesh that fit no scheme, so there is nothing to measure; "
                         "name one with --schemes to learn what it needs");
  return settings;
}

}  // namespace bench
