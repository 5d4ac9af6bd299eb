// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Command-line options that several subcommands share.

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
  int ranks = 0;  // 0: all processes under MPI, else the scheme's usual number
  int repeats = 5;
  int warm_up = 1;
  std::string overlap = "on";
  std::string method = "automatic";
  std::string trace;
  std::string json;
  std::string torch = "auto";
};

/// Adds --repeats, --warm-up, --overlap and --json.
void add_run_options(CLI::App& command, Options& options);
/// Adds --repeats, --warm-up, --overlap, --json, --schemes, --scalars and --method.
void add_scheme_options(CLI::App& command, Options& options);
/// Adds --method.
void add_method_option(CLI::App& command, Options& options);
/// Adds --ranks.
void add_ranks_option(CLI::App& command, Options& options);
/// Adds --ranks and --mesh.
void add_mesh_options(CLI::App& command, Options& options);

/// Adds --torch.
void add_torch_option(CLI::App& command, Options& options);
/// Prints that PyTorch is not installed, if it was to be measured.
void explain_no_torch(const Job& job, const Options& options);

/// Adds --trace.
void add_trace_option(CLI::App& command, Options& options);
/// Checks that a trace shows just one measurement.
/// @throws cubist::ArgumentError if it would show several, or none
void require_one_trace(const Options& options, std::size_t measurements);

/// Returns the values of overlap to measure: on, off, or both.
/// @throws cubist::ArgumentError for anything but "on" without MPI
[[nodiscard]] std::vector<bool> overlaps(const Job& job, const Options& options);

/// Returns the user's number of ranks, else that of MPI's processes, else `usual`.
/// @throws cubist::ArgumentError if that is more than there are processes
[[nodiscard]] int ranks_of(const Job& job, const Options& options, int usual);

/// Whether the scheme has a mesh for this many ranks.
[[nodiscard]] bool fits(const std::string& scheme, const std::vector<int>& mesh, int ranks);

/// Returns the schemes that the user named, or all that have a mesh for the ranks, with each
/// scalar.
/// @throws cubist::MeshError if a named scheme does not fit, or none does
[[nodiscard]] std::vector<Setting> settings_of(const Job& job, const Options& options);

}  // namespace bench
