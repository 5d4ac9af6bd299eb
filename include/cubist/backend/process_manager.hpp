// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads from the environment what the process manager that started this process (mpiexec, srun)
// says about the job, so that it is known without MPI.

#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Whether mpiexec, srun or a similar tool started this process as part of an MPI job.
[[nodiscard]] inline bool started_by_process_manager()
{
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

/// The processes of the job, and which of them this one is.
struct JobProcesses
{
  int size = 1;
  int rank = 0;

  /// Returns the processes according to Open MPI, to PMI (MPICH, Intel MPI, Slurm), or else to a
  /// job step of Slurm; one process if the environment has none of these.
  [[nodiscard]] static JobProcesses of_environment()
  {
    constexpr std::array<std::array<const char*, 2>, 3> names{
        {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
         {"PMI_SIZE", "PMI_RANK"},
         {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}};
    for (const auto& [size, rank] : names)
      if (const JobProcesses job{number(size), number(rank)};
          job.size >= 1 && job.rank >= 0 && job.rank < job.size)
        return job;
    return {};
  }

 private:
  /// Returns the value of an environment variable that is a number; -1 for any other.
  [[nodiscard]] static int number(const char* name)
  {
    const char* const value = std::getenv(name);
    const std::string_view text = value == nullptr ? "" : value;
    int n = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    return error == std::errc{} && end == text.data() + text.size() ? n : -1;
  }
};

/// Returns the warning that each process of this job runs a program of threads, or an empty string
/// if there is one process.
[[nodiscard]] inline std::string copies_warning(const JobProcesses& job)
{
  if (job.size == 1) return "";
  const auto size = std::to_string(job.size);
  return "cubist: got " + size +
         " processes, but the ranks of this backend are threads of one process, so each process "
         "runs a copy of the whole program; start it without mpiexec or srun, or use the backend "
         "Mpi, whose ranks are processes";
}

/// Returns the warning on the first call in the first process of the job, otherwise an empty
/// string.
[[nodiscard]] inline std::string take_copies_warning()
{
  static std::atomic<bool> taken{false};
  if (taken.exchange(true)) return "";
  const auto job = JobProcesses::of_environment();
  return job.rank == 0 ? copies_warning(job) : "";
}

}  // namespace cubist::CUBIST_ABI::detail
