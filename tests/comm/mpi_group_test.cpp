// SPDX-License-Identifier: BSD-3-Clause
#include <sched.h>

#include "cubist/backend/mpi.hpp"
#include "cubist/comm/mpi_group.hpp"

#include "catch.hpp"
#include "ranks.hpp"

// Run by all processes, which are on one node; what differs between nodes is tested by
// tests/multihost.

using namespace cubist;
using namespace cubist::test;

namespace
{

/// mpiexec may bind a process to some of the node's.
int own_cores()
{
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return CPU_COUNT(&cores);
}

}  // namespace

TEST_CASE("a group knows its ranks, which are near each other and share cores")
{
  for (const int ranks : {1, 2, 4})
  {
    if (!fits(ranks)) continue;
    require_clear(on_ranks<Mpi>(ranks, [&](MpiCommunicator& world) {
      Findings found;
      auto half = world.split(world.rank() % 2, -world.rank());
      found.check(half.size() == (ranks + 1) / 2, "a half of ", ranks, " has ", half.size());
      found.check(half.rank() == (half.size() - 1) - world.rank() / 2, "rank ", half.rank());
      found.check(!half.remote() && !world.remote(), "ranks of one node are remote");
      found.check(half.cores() >= 1 && half.cores() <= world.cores(), "a half has ", half.cores(),
                  " cores of ", world.cores());
      auto alone = half.split(half.rank(), 0);
      found.check(alone.cores() == own_cores(), "alone, a rank has ", alone.cores());
      found.check(half.lends() == world.lends(), "a half lends, or not, as the whole");
      return found;
    }));
  }
}
