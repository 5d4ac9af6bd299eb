// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <boost/mpi/communicator.hpp>

#include "cubist/comm/mpi/cores.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_cores_test
{

// All processes run this; they are on one node.

using cubist::detail::Cores;

TEST_CASE("processes that are not bound share all cores")
{
  const boost::mpi::communicator world;
  const auto cores = Cores::of(world);
  CHECK(cores.node >= 1);
  CHECK(cores.node <= static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(cores.process >= 1);
  CHECK(cores.process <= cores.node);
}

TEST_CASE("a bound process has its cores, and the node those of any process")
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
  const auto cores = Cores::of(world);
  if (binds) sched_setaffinity(0, sizeof before, &before);
  CHECK(cores.node >= CPU_COUNT(&before));
  if (binds) CHECK(cores.process == 1);
}

}  // namespace cubist::test::comm_mpi_cores_test
