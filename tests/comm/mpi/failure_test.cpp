// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <thread>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/mpi/failure.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist::test;
using cubist::detail::MpiFailures;

namespace
{

/// Looks until news has come that `is_enough` for.
template <class F>
void look_until(MpiFailures& news, F is_enough)
{
  while (!news.look() || !is_enough()) std::this_thread::yield();
}

}  // namespace

TEST_CASE("no news is good news")
{
  const boost::mpi::communicator all{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MpiFailures news{all};
  CHECK(news.rank() == all.rank());
  CHECK(news.size() == all.size());
  CHECK_FALSE(news.look());
  CHECK_FALSE(news.bad());
  CHECK(std::string{news.text()}.empty());
  all.barrier();
}

TEST_CASE("every other rank hears of the lowest rank's error, whatever it heard before")
{
  const boost::mpi::communicator all{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MpiFailures news{all};
  const int last = all.size() - 1;
  // The last rank leaves a call, then fails; so does the first, with a longer story.
  if (all.rank() == last && last > 0)
  {
    news.tell("left", MpiFailures::Of::leaving);
    news.tell("the last rank failed", MpiFailures::Of::error);
  }
  if (all.rank() == 0)
    news.tell("the first rank failed" + std::string(5000, '!'), MpiFailures::Of::error);

  if (all.rank() == 0)
  {
    if (last > 0) look_until(news, [&] { return news.is_error(); });
    if (last > 0) CHECK(std::string{news.text()} == "the last rank failed");
    if (last > 0) CHECK(news.teller() == last);
  }
  else
  {
    look_until(news, [&] { return news.is_error() && news.teller() == 0; });
    CHECK(mentions(news.text(), "the first rank failed!!!"));
  }
  all.barrier();
}

TEST_CASE("one look finds all that has come")
{
  const boost::mpi::communicator all{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MpiFailures news{all};
  // Each rank tells two things, the last rank first; what it sends next follows them.
  const boost::mpi::communicator apart;
  for (int teller = all.size() - 1; teller >= 0; --teller)
  {
    if (all.rank() == teller)
    {
      news.tell("left", MpiFailures::Of::leaving);
      news.tell("rank " + std::to_string(teller) + " failed", MpiFailures::Of::error);
    }
    for (int follower = 0; follower < all.size(); ++follower)
    {
      if (follower == teller) continue;
      if (all.rank() == teller) apart.send(follower, 0);
      if (all.rank() == follower) apart.recv(teller, 0);
    }
  }
  const int lowest = all.rank() == 0 ? 1 : 0;
  CHECK(news.look() == (all.size() > 1));
  if (all.size() > 1) CHECK(news.teller() == lowest);
  if (all.size() > 1) CHECK(news.text() == "rank " + std::to_string(lowest) + " failed");
  all.barrier();
}
