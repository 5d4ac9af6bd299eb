// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/mpi/context.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::MpiContext;

TEST_CASE("ranks of a part are named as the world does")
{
  const boost::mpi::communicator world;
  const auto backwards = world.split(0, -world.rank());
  MpiContext place{backwards, backwards.rank(), backwards.size(), 16};
  CHECK(cubist::detail::in_world(place, {0}) == std::vector<int>{0});
  place.world = world;
  const int last = world.size() - 1;
  CHECK(cubist::detail::in_world(place, {0, last}) == std::vector<int>{last, 0});
  CHECK(cubist::detail::in_world(place, {}).empty());
}

TEST_CASE("what MPI reports is an error with MPI's text, and what to do")
{
  CHECK_NOTHROW(detail::mpi_check(MPI_SUCCESS, "MPI_Isend", "send on rank 0 of 1"));
  const auto text = message_of<CollectiveMismatch>(
      [] { detail::mpi_check(MPI_ERR_TRUNCATE, "MPI_Test", "receive on rank 1 of 2"); });
  CHECK(mentions(text, "receive on rank 1 of 2 failed in MPI_Test (MPI_ERR_TRUNCATE",
                 "its data is incomplete", "let all ranks make the same calls"));
  const auto other = message_of<CommunicationError>(
      [] { detail::mpi_check(MPI_ERR_COMM, "MPI_Test", "receive on rank 1 of 2"); });
  CHECK(mentions(other, "MPI_ERR_COMM"));
}
