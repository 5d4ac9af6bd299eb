// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where this process runs: alone, with threads as ranks, or as one of MPI's processes.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace bench
{

struct Job
{
  bool mpi = false;
  bool first = true;  // the process that prints
  int processes = 1;
  int nodes = 1;         // host names, or nodes of the machine that is simulated
  int machines = 1;      // running kernels: several nodes may be namespaces of one machine
  int gpus = 0;          // that the ranks have, on all machines; 0: they compute on processors
  std::string gpu = {};  // its name
  std::size_t gpu_memory = 0;  // its bytes
  std::string simulated = {};  // the name of the machine that is simulated; empty: none

  [[nodiscard]] const char* backend() const
  {
    if (!simulated.empty()) return "simulated";
    if (gpus > 0) return mpi ? "nccl on mpi" : "nccl";
    return mpi ? "mpi" : "threads";
  }
  /// What multiplies, for the head of a table.
  [[nodiscard]] std::string blas() const;
};

/// What a subcommand does once the arguments are read.
using Action = std::function<void(const Job&)>;

/// Starts MPI if mpiexec or srun started this process. Every process calls it.
[[nodiscard]] Job find_job();

/// The same for MPI: where MPI was found when this was built.
[[nodiscard]] bool started_by_mpi();
[[nodiscard]] Job find_mpi_job();

/// How many different values there are.
[[nodiscard]] int count_different(std::vector<std::uint64_t> values);

/// One number for this host's name, and one for the running kernel.
[[nodiscard]] std::uint64_t node_id();
[[nodiscard]] std::uint64_t machine_id();

/// What every result says of its run.
[[nodiscard]] nlohmann::json describe(const Job& job, const char* benchmark);

/// Writes to `path`, or to standard output for "-"; nowhere for "".
/// @throws cubist::DataError for a file that cannot be written
void write_json(const nlohmann::json& json, const std::string& path);

}  // namespace bench
