// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <boost/mpi/communicator.hpp>
#include <sched.h>

#include "cubist/comm/mpi/cores.hpp"

#include "catch.hpp"

// Run by all processes, which are on one node.

using cubist::detail::Cores;

TEST_CASE("processes that are bound to nothing share all cores")
{
  const boost::mpi::communicator world;
  const auto [together, share] = Cores::of(world);
  CHECK(together >= 1);
  CHECK(together <= static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(share >= 1);
  CHECK(share <= together);
}

TEST_CASE("processes that are bound to cores have these, and together those of any")
{
  const boost::mpi::communicator world;
  cpu_set_t before;
  CPU_ZERO(&before);
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int some = 0;
  while (!CPU_ISSET(some, &before)) ++some;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(some, &one);
  const bool binds = world.rank() > 0;
  if (binds) sched_setaffinity(0, sizeof one, &one);
  const auto [together, share] = Cores::of(world);
  if (binds) sched_setaffinity(0, sizeof before, &before);
  CHECK(together >= CPU_COUNT(&before));
  if (binds) CHECK(share == 1);
}
