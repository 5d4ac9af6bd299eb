// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The time that a rank waits for others. A communicator measures the time in which its rank blocks.
// Calls that are complete do not count, and neither does what the rank copies and adds itself
// between two polls, so a wait for a large sum counts only in part.
//
//   const double before = wait_seconds();
//   step();
//   const double waited = wait_seconds() - before;
//
// Ranks that are threads count while they are parked, MPI processes in the pauses between polls.
// With NCCL a rank counts while its host waits, and a call whose data is ready is in flight on the
// device; computation of the device at that time counts, too. Ranks of `Simulated` share a thread,
// and count nothing: its report has their waits.

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

/// Adds the time of its scope, in which the rank only blocks: it makes no call that may wait.
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

/// How long the rank that calls it has waited for others since its thread started; in seconds.
[[nodiscard]] inline double wait_seconds()
{
  return std::chrono::duration<double>(detail::wait_time()).count();
}

}  // namespace cubist::CUBIST_ABI
