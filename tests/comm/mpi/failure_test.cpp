// SPDX-License-Identifier: BSD-3-Clause
#include <mpi.h>

#include "cubist/comm/mpi/failure.hpp"

#include "job_context.hpp"
#include "ranks.hpp"

namespace cubist::test::comm_mpi_failure_test
{

using namespace std::chrono_literals;
using cubist::detail::MpiFailures;

TEST_CASE("without a failure, a poll receives nothing")
{
  const auto all = duplicate_world();
  MpiFailures failures{all};
  CHECK(failures.rank() == all.rank());
  CHECK(failures.size() == all.size());
  CHECK_FALSE(failures.poll());
  CHECK_FALSE(failures.any());
  CHECK_FALSE(failures.is_broken());
  CHECK_FALSE(failures.is_announced());
  CHECK(std::string{failures.message()}.empty());
  all.barrier();
}

TEST_CASE("every other rank receives the error of the lowest rank, whatever it received before")
{
  const auto all = duplicate_world();
  MpiFailures failures{all};
  const int last = all.size() - 1;
  // The last rank abandons a call, then fails; so does the first rank, with a long message.
  if (all.rank() == last && last > 0)
  {
    failures.broadcast("abandoned", MpiFailures::Kind::abandoned_call);
    failures.broadcast("the last rank failed", MpiFailures::Kind::error);
    CHECK(failures.is_broken());
    CHECK(failures.is_announced());
  }
  if (all.rank() == 0)
    failures.broadcast("the first rank failed" + std::string(5000, '!'), MpiFailures::Kind::error);

  if (all.rank() > 0)
  {
    while (!failures.poll() || !failures.is_error() || failures.source() != 0)
      std::this_thread::yield();
    CHECK(mentions(failures.message(), "the first rank failed!!!"));
    CHECK(failures.is_broken());
  }
  else if (last > 0)
  {
    CHECK(failures.wait_for_error() == "the last rank failed");
    CHECK(failures.source() == last);
  }
  all.barrier();
}

TEST_CASE("one poll receives all notifications that have arrived")
{
  const auto all = duplicate_world();
  MpiFailures failures{all};
  // Each rank sends two notifications, the last rank first, and then a message that follows them.
  const boost::mpi::communicator world;
  for (int sender = all.size() - 1; sender >= 0; --sender)
  {
    if (all.rank() == sender)
    {
      failures.broadcast("abandoned", MpiFailures::Kind::abandoned_call);
      failures.broadcast("rank " + std::to_string(sender) + " failed", MpiFailures::Kind::error);
    }
    for (int peer = 0; peer < all.size(); ++peer)
    {
      if (peer == sender) continue;
      if (all.rank() == sender) world.send(peer, 0);
      if (all.rank() == peer) world.recv(sender, 0);
    }
  }
  const int lowest = all.rank() == 0 ? 1 : 0;
  CHECK(failures.poll() == (all.size() > 1));
  if (all.size() > 1) CHECK(failures.source() == lowest);
  if (all.size() > 1) CHECK(failures.message() == "rank " + std::to_string(lowest) + " failed");
  all.barrier();
}

TEST_CASE("a timer that is destroyed in time does not abort the job")
{
  const auto begin = std::chrono::steady_clock::now();
  {
    const cubist::detail::AbortTimer timer{10s, "aborted"};
  }
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("the message of a timeout names the limit, the call and what to do")
{
  CHECK(cubist::detail::timeout_message(20ms, "barrier", "; reason") ==
        "waited for 20 ms in barrier, so the time limit ran out; reason; fix what delays them, or "
        "give launch a longer time limit");
}

}  // namespace cubist::test::comm_mpi_failure_test
