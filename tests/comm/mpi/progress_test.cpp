// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/mpi/progress.hpp"

#include "catch.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using namespace std::chrono_literals;
using detail::MpiContext;
using detail::MpiProgress;

namespace
{

using Clock = std::chrono::steady_clock;

/// Communicators of all processes: one for the world's own use, one for data.
struct Processes
{
  Processes()
  {
    MPI_Comm_set_errhandler(control, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(data, MPI_ERRORS_RETURN);
  }
  boost::mpi::communicator control{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  boost::mpi::communicator data{MPI_COMM_WORLD, boost::mpi::comm_duplicate};
  MpiContext place{data, data.rank(), data.size(), 1 << 20};
};

/// Every process gets here before one goes on; nobody calls MPI for long.
void meet() { MPI_Barrier(MPI_COMM_WORLD); }

}  // namespace

TEST_CASE("a call is under way until it is waited for")
{
  Processes processes;
  MpiProgress world{processes.control, false};
  std::vector<int> x{1};
  for (int tag = 1; tag <= 100; ++tag)
  {
    x = {tag};
    const Call<int> sum{Collective::all_reduce, x, x, 1};
    auto& call = world.start(processes.place, processes.place.tags.tag(tag, sum), false, sum);
    if (tag % 2 == 0)
      world.wait(call);
    else
      while (!world.test(call)) std::this_thread::yield();
    world.leave(call);
    CHECK(x[0] == tag * processes.place.size);
  }
  CHECK_FALSE(world.broken());
  meet();
}

TEST_CASE("the helper moves calls between nodes while their rank computes")
{
  Processes processes;
  const auto& place = processes.place;
  MpiProgress world{processes.control, true};
  std::vector<double> x(100'000, place.rank == 0 ? 5.0 : 0.0);
  meet();
  const auto begin = Clock::now();
  // The ranks in the middle of the chain must pass the data on.
  auto& call =
      world.start(place, 1, true,
                  place.rank == 0 ? Call<double>{Collective::broadcast, x, {}, x.size(), 0}
                                  : Call<double>{Collective::broadcast, {}, x, x.size(), 0});
  const bool in_the_middle = place.rank > 0 && place.rank + 1 < place.size;
  if (in_the_middle) std::this_thread::sleep_for(1500ms);  // computes, and does not call MPI
  world.wait(call);
  if (!in_the_middle) CHECK(Clock::now() - begin < 1000ms);
  world.leave(call);
  CHECK(x == std::vector<double>(100'000, 5.0));
  meet();
}

TEST_CASE("what a rank spreads ends the others' calls")
{
  Processes processes;
  const auto& place = processes.place;
  MpiProgress world{processes.control, false};
  meet();
  if (place.rank == 0)
  {
    std::this_thread::sleep_for(5ms);
    world.spread("rank 0 failed (no file)");
    CHECK(world.broken());
    CHECK_FALSE(world.failed_below());
  }
  else
  {
    std::vector<int> x(1);
    const auto text = message_of<PeerFailed>([&] {
      auto& call = world.start(place, 1, false, Call<int>{Collective::receive, {}, x, 1, 0});
      struct Leave
      {
        MpiProgress& world;
        detail::MpiMember& call;
        ~Leave() { world.leave(call); }
      } leave{world, call};
      world.wait(call);
    });
    CHECK(text == "rank 0 failed (no file)");
    CHECK(world.news() == text);
    CHECK(world.failed_below());
    CHECK(world.broken());
    const auto later = message_of<PeerFailed>([&] {
      (void)world.start(place, 2, false, Call<int>{Collective::receive, {}, x, 1, 0});
    });
    CHECK(later == text);
  }
  meet();
}

TEST_CASE("of what several ranks spread, the lowest one's counts")
{
  Processes processes;
  MpiProgress world{processes.control, false};
  const int rank = processes.place.rank;
  world.spread("rank " + std::to_string(rank));
  meet();
  std::this_thread::sleep_for(20ms);
  if (processes.place.size > 1)
  {
    const auto end = Clock::now() + 2s;
    const std::string lowest = rank == 0 ? "rank 1" : "rank 0";
    while (world.news() != lowest && Clock::now() < end) std::this_thread::yield();
    CHECK(world.news() == lowest);
  }
  CHECK(world.failed_below() == (rank > 0));
  meet();
}

TEST_CASE("a long message is cut")
{
  Processes processes;
  MpiProgress world{processes.control, false};
  if (processes.place.rank == 0) world.spread(std::string(10'000, 'x'));
  if (processes.place.rank > 0) CHECK(mentions(world.news(), std::string(1000, 'x')));
  meet();
}

TEST_CASE("ranks agree on the smallest value, or know that one has not come")
{
  Processes processes;
  MpiProgress world{processes.control, false};
  int value = 100 + processes.place.rank;
  CHECK(world.agree_on_smallest(value, 10s));
  CHECK(value == 100);

  if (processes.place.size > 1)
  {
    const bool late = processes.place.rank + 1 == processes.place.size;
    const auto begin = Clock::now();
    if (late) std::this_thread::sleep_for(400ms);
    value = 7;
    const bool all_came = world.agree_on_smallest(value, late ? Clock::duration{10s} : 50ms);
    if (late)
      CHECK(all_came);
    else if (!all_came)
      CHECK(Clock::now() - begin >= 50ms);
    if (processes.place.rank == 0) CHECK_FALSE(all_came);
    // The agreement that was given up on goes on in MPI, with the world's memory.
    MPI_Barrier(processes.control);
    std::this_thread::sleep_for(50ms);
    meet();
  }
}

TEST_CASE("what blocks in MPI is done within the limit")
{
  Processes processes;
  MpiProgress world{processes.control, false, 10s};
  CHECK(world.has_limit());
  const auto begin = Clock::now();
  CHECK(world.exclusively("a test", [] { return 7; }) == 7);
  CHECK(Clock::now() - begin < 5s);
  meet();
}

TEST_CASE("a wait ends at the limit")
{
  Processes processes;
  const auto& place = processes.place;
  MpiProgress world{processes.control, false, 150ms};
  meet();
  std::vector<int> x(1);
  const auto begin = Clock::now();
  // No rank sends, so each waits for itself.
  auto& call = world.start(place, 0, false, Call<int>{Collective::receive, {}, x, 1, place.rank});
  const auto text = message_of<CommunicationError>([&] { world.wait(call); });
  world.leave(call);
  CHECK(Clock::now() - begin >= 100ms);
  const auto me = std::to_string(place.rank);
  const bool first = mentions(text, "waited for 150 ms in receive of 1 int32 on ranks {" + me,
                              "; nothing has come from ranks {" + me + "}; mend");
  CHECK((first || mentions(text, "failed (waited for 150 ms in receive")));
  meet();
}
