// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/shutdown.hpp"

#include "catch.hpp"
#include "job_context.hpp"

namespace cubist::test::comm_mpi_shutdown_test
{

using namespace std::chrono_literals;
using detail::MpiProgress;

TEST_CASE("ranks agree on the minimum, unless one is late")
{
  const auto control = duplicate_world();
  MpiProgress progress{control, false};
  const auto agree = [&](int value, std::chrono::steady_clock::duration limit) {
    return detail::agree_on_end(progress, value, limit);
  };
  const auto end = agree(100 + process(), 10s);
  REQUIRE(end);
  CHECK(end->minimum == 100);
  CHECK_FALSE(end->is_broken);

  if (processes() > 1)
  {
    const bool late = process() + 1 == processes();
    const auto begin = std::chrono::steady_clock::now();
    if (late) std::this_thread::sleep_for(250ms);
    const auto agreed = agree(7, late ? 10s : 50ms);
    if (late) CHECK((agreed && agreed->minimum == 7));
    if (!agreed) CHECK(std::chrono::steady_clock::now() - begin >= 50ms);
    if (process() == 0) CHECK_FALSE(agreed);
  }
  MPI_Barrier(control);
}

TEST_CASE("ranks agree that one of them may have sent a failure notification")
{
  MpiProgress progress{duplicate_world(), false};
  if (process() + 1 == processes())
    progress.with_failures([](detail::MpiFailures& f) { f.mark_broken(); });
  const auto end = detail::agree_on_end(progress, 7, 10s);
  REQUIRE(end);
  CHECK(end->minimum == 7);
  CHECK(end->is_broken);
}

TEST_CASE("the number of a leaked communicator is not reused")
{
  boost::mpi::communicator comm{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  const auto leaked = MPI_Comm_c2f(comm);
  detail::leak_communicator(std::move(comm));
  const auto fresh = duplicate_world();
  CHECK(MPI_Comm_c2f(fresh) != leaked);
}

}  // namespace cubist::test::comm_mpi_shutdown_test
