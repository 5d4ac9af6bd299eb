// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/transport/context.hpp"

#include "../job_context.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_mpi_transport_context_test
{

using detail::MpiContext;

TEST_CASE("ranks of a part of the job are translated to ranks of the job")
{
  const boost::mpi::communicator world;
  const auto backwards = world.split(0, -world.rank());
  MpiContext context{backwards, backwards.rank(), backwards.size(), 16};
  CHECK(detail::job_ranks(context, {0}) == std::vector<int>{0});
  context.job = world;
  const int last = world.size() - 1;
  CHECK(detail::job_ranks(context, {0, last}) == std::vector<int>{last, 0});
  CHECK(detail::job_ranks(context, {}).empty());
}

TEST_CASE("an error of MPI is thrown with MPI's text, and says what to do")
{
  CHECK_NOTHROW(detail::mpi_check(MPI_SUCCESS, "MPI_Isend", "send on rank 0 of 1"));
  const auto text = message_of<CollectiveMismatch>(
      [] { detail::mpi_check(MPI_ERR_TRUNCATE, "MPI_Test", "receive on rank 1 of 2"); });
  CHECK(mentions(text,
                 "receive on rank 1 of 2 failed in MPI_Test (" + text_of_error(MPI_ERR_TRUNCATE),
                 "its data is incomplete", "let all ranks make the same calls"));
  const auto other = message_of<CommunicationError>(
      [] { detail::mpi_check(MPI_ERR_COMM, "MPI_Test", "receive on rank 1 of 2"); });
  CHECK(mentions(other, text_of_error(MPI_ERR_COMM)));
}

TEST_CASE("neighbours are counted cyclically")
{
  const MpiContext context{MPI_COMM_NULL, 1, 4};
  CHECK(detail::neighbour(context, 2) == 3);
  CHECK(detail::neighbour(context, 3) == 0);
  CHECK(detail::neighbour(context, -2) == 3);
}

}  // namespace cubist::test::comm_mpi_transport_context_test
