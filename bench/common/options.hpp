// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The options that several subcommands have on the command line.

#include <cstddef>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/row.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct Options
{
  std::vector<std::string> schemes;  // empty: all that fit
  std::vector<std::string> scalars{"float", "double"};
  std::vector<int> mesh;
  int ranks = 0;  // 0: under MPI all processes, else what the scheme usually has
  int repeats = 5;
  int warm_up = 1;
  std::string overlap = "on";
  std::string method = "automatic";
  std::string trace;
  std::string json;
  std::string torch = "auto";
};

/// --repeats, --warm-up, --overlap and --json
void add_run_options(CLI::App& command, Options& options);
/// These, --schemes, --scalars and --method
void add_scheme_options(CLI::App& command, Options& options);
/// --method
void add_method_option(CLI::App& command, Options& options);
/// --ranks
void add_ranks_option(CLI::App& command, Options& options);
/// That and --mesh
void add_mesh_options(CLI::App& command, Options& options);

/// --torch
void add_torch_option(CLI::App& command, Options& options);
/// Says that PyTorch is not installed, unless it was not to be measured.
void explain_no_torch(const Job& job, const Options& options);

/// --trace
void add_trace_option(CLI::App& command, Options& options);
/// @throws cubist::ArgumentError for a trace of anything but one measurement
void require_one_trace(const Options& options, std::size_t measurements);

/// With overlap, without it, or both.
/// @throws cubist::ArgumentError for anything but "on" where it is not MPI
[[nodiscard]] std::vector<bool> overlaps(const Job& job, const Options& options);

/// The user's number of ranks, else all of MPI's processes, else `usual`.
/// @throws cubist::ArgumentError for more than there are
[[nodiscard]] int ranks_of(const Job& job, const Options& options, int usual);

/// Whether the scheme has a mesh for so many ranks.
[[nodiscard]] bool fits(const std::string& scheme, const std::vector<int>& mesh, int ranks);

/// The schemes that the user named, or all that have a mesh for their ranks, with each scalar.
/// @throws cubist::MeshError for one that does not fit, or if there is none
[[nodiscard]] std::vector<Setting> settings_of(const Job& job, const Options& options);

}  // namespace bench
