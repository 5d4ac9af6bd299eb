// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lets BLAS use all cores of this machine, on the one rank that measures it while the others sleep.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

#include <sched.h>

#include <cubist/engine/host/blas_threads.hpp>

namespace bench
{

/// Gives BLAS one thread on each core of this machine until the end of the scope, even where
/// mpiexec or srun bound this process to some of them.
class AllCores
{
 public:
  AllCores()
  {
    sched_getaffinity(0, sizeof before_, &before_);
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int i = 0; i < CPU_SETSIZE; ++i) CPU_SET(i, &all);
    bind(all);  // the system removes cores that the process may not use
    sched_getaffinity(0, sizeof all, &all);
    blas_.emplace(std::max(1, CPU_COUNT(&all)));
  }
  AllCores(const AllCores&) = delete;
  AllCores& operator=(const AllCores&) = delete;
  ~AllCores()
  {
    blas_.reset();
    bind(before_);
    // OpenBLAS's own threads spin for tens of milliseconds after a call before they sleep.
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }

 private:
  static void bind(const cpu_set_t& cores)
  {
    for (const auto& thread : std::filesystem::directory_iterator{"/proc/self/task"})
      sched_setaffinity(std::stoi(thread.path().filename()), sizeof cores, &cores);
  }

  cpu_set_t before_;
  std::optional<cubist::BlasThreads> blas_;
};

}  // namespace bench
