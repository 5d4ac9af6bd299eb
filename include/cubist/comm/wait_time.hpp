// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The time that a rank waits for others. A communicator measures how long its rank blocks. A wait
// for a call that is already complete does not count. Neither does what the rank itself copies and
// adds between two polls, so a wait for a large sum counts only in part.
//
//   const double before = wait_seconds();
//   step();
//   const double waited = wait_seconds() - before;
//
// Ranks that are threads count the time for which they are parked; MPI processes count the pauses
// between polls. With NCCL, a rank counts the time in which its host waits while a call whose data
// is ready is in flight on the device; what the device computes at that time counts, too. Ranks of
// `Simulated` share a thread and count nothing: the simulation's report has their waits.

#include <chrono>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// The time that this thread has waited for other ranks.
[[nodiscard]] inline std::chrono::steady_clock::duration& wait_time()
{
  static thread_local std::chrono::steady_clock::duration total{};
  return total;
}

/// RAII: adds the time of its scope to `wait_time()`. In the scope, the rank only blocks, and makes
/// no call that may wait.
class WaitTimer
{
 public:
  WaitTimer() = default;
  WaitTimer(WaitTimer&&) = delete;
  ~WaitTimer() { wait_time() += std::chrono::steady_clock::now() - begin_; }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace detail

/// Returns for how many seconds the calling rank has waited for others since its thread started.
[[nodiscard]] inline double wait_seconds()
{
  return std::chrono::duration<double>(detail::wait_time()).count();
}

}  // namespace cubist::CUBIST_ABI
