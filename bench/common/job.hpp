// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where this process runs: alone, with threads as ranks, or as one of several MPI processes.

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
  int nodes = 1;               // host names, or nodes of the simulated machine
  int machines = 1;            // running kernels: several nodes may be namespaces of one machine
  int gpus = 0;                // GPUs of the ranks on all machines; 0: ranks compute on processors
  std::string gpu = {};        // the GPU's name
  std::size_t gpu_memory = 0;  // bytes of one GPU
  std::string simulated = {};  // the name of the simulated machine; empty: none

  [[nodiscard]] const char* backend() const
  {
    if (!simulated.empty()) return "simulated";
    if (gpus > 0) return mpi ? "nccl on mpi" : "nccl";
    return mpi ? "mpi" : "threads";
  }
  /// The name of the library that multiplies, for the head of a table.
  [[nodiscard]] std::string blas() const;
};

/// What a subcommand does once the arguments are read.
using Action = std::function<void(const Job&)>;

/// Starts MPI if mpiexec or srun started this process. Every process calls it.
[[nodiscard]] Job find_job();

/// Whether mpiexec or srun started this process; false in a build without MPI.
[[nodiscard]] bool started_by_mpi();
[[nodiscard]] Job find_mpi_job();

/// Counts the different values.
[[nodiscard]] int count_different(std::vector<std::uint64_t> values);

/// Return a number for this host's name, and one for the running kernel.
[[nodiscard]] std::uint64_t node_id();
[[nodiscard]] std::uint64_t machine_id();

/// Returns, as JSON, what every result says about its run.
[[nodiscard]] nlohmann::json describe(const Job& job, const char* benchmark);

/// Writes to `path`; "-" is standard output, and "" writes nothing.
/// @throws cubist::DataError if the file cannot be written
void write_json(const nlohmann::json& json, const std::string& path);

}  // namespace bench
