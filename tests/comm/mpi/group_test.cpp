// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/backend/mpi.hpp"
#include "cubist/comm/mpi/group.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_mpi_group_test
{

// All processes run this, on one node or several.

/// The cores of this process, which mpiexec may have bound.
static int own_cores()
{
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  return CPU_COUNT(&cores);
}

/// Whether the ranks of a communicator are on several hosts, judging by the hosts' names.
static bool on_several_hosts(MpiCommunicator& world)
{
  std::vector<char> name(MPI_MAX_PROCESSOR_NAME);
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::vector<int> mine(name.begin(), name.end());
  std::vector<int> all(mine.size() * static_cast<std::size_t>(world.size()));
  world.all_gather(mine, all);
  for (auto other = all.begin(); other != all.end(); other += MPI_MAX_PROCESSOR_NAME)
    if (!std::equal(mine.begin(), mine.end(), other)) return true;
  return false;
}

TEST_CASE("a group knows its ranks, whether they share memory, and their cores")
{
  for (const int ranks : {1, 2, 4})
  {
    if (!fits(ranks)) continue;
    require_clear(on_ranks<Mpi>(ranks, [&](MpiCommunicator& world) {
      Findings found;
      auto half = world.split(world.rank() % 2, -world.rank());
      found.check(half.size() == (ranks + 1) / 2, "a half of ", ranks, " has ", half.size());
      found.check(half.rank() == (half.size() - 1) - world.rank() / 2, "rank ", half.rank());
      for (auto* group : {&world, &half})
      {
        found.check(group->remote() == on_several_hosts(*group), "remote: ", group->remote());
        found.check(!group->exposes() || !group->remote(), "ranks of several hosts expose");
      }
      auto alone = half.split(half.rank(), 0);
      found.check(alone.cores() == own_cores(), "alone, a rank has ", alone.cores());
      found.check(alone.exposes() == half.exposes() || half.remote(),
                  "a rank exposes, its half does not");
      if (world.exposes())
        found.check(half.exposes() && half.cores() >= alone.cores() &&
                        half.cores() <= world.cores(),
                    "a half has ", half.cores(), " cores of ", world.cores());
      return found;
    }));
  }
}

}  // namespace cubist::test::comm_mpi_group_test
