// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Moves ranks that share cores to different ones before they compute. Linux seldom moves a process
// to a core on which others wake up often, and ranks that wait for others poll, so it may leave
// three of four ranks on one core until the product ends.

#include <sched.h>

#include <cubist/comm/run_on_core.hpp>
#include <cubist/version.hpp>

namespace cubist::CUBIST_ABI::detail
{

/// Whether a product takes so long that ranks which share cores should first move to different
/// ones.
[[nodiscard]] inline bool is_worth_moving(int ranks, int cores, double multiplications)
{
  constexpr double least = 1 << 26;  // about a millisecond
  return ranks > cores && multiplications >= least;
}

/// Moves this thread to the core with this number, counted among those on which it may run; after
/// the last one, counting starts again at the first. Linux may move it again later. Does nothing
/// if the thread may run on one core only, or if the system refuses.
inline void move_to_core(int number)
{
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  const int count = CPU_COUNT(&all);
  if (count < 2) return;
  int before = number % count;
  int core = 0;
  while (!CPU_ISSET(static_cast<unsigned>(core), &all) || before-- > 0) ++core;
  run_on_core(core, all);
}

}  // namespace cubist::CUBIST_ABI::detail
