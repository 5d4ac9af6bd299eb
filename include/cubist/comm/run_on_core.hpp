// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Moves a thread to another core. Linux seldom moves a thread to a core on which others wake up
// often, so threads that compute may share a core while another core is idle.

#include <sched.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Moves this thread to a core. It may still run on the same cores as before, so Linux may move it
/// again later. Does nothing if the system refuses.
/// @param core one of `allowed`
/// @param allowed the cores on which this thread may run
inline void run_on_core(int core, const cpu_set_t& allowed)
{
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(core), &one);
  if (sched_setaffinity(0, sizeof one, &one) == 0) sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace cubist::CUBIST_ABI::detail
