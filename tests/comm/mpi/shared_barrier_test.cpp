// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cubist/backend/mpi.hpp"
#include "cubist/comm/mpi/shared_barrier.hpp"

#include "catch.hpp"
#include "ranks.hpp"

// Seats of one process, which is as many ranks: what they say to each other is the same as between
// processes. Then communicators of all processes.

using namespace cubist;
using namespace cubist::test;
using detail::FutexEvent;
using detail::MpiSharedBarrier;
using detail::MySeat;
using detail::Seat;
using detail::Told;

namespace
{

/// Ranks that a test lets come one after the other.
struct Ranks
{
  explicit Ranks(std::size_t size) : seats(size), bells(size)
  {
    std::vector<MpiSharedBarrier::Place> places;
    for (std::size_t r = 0; r < size; ++r)
      places.push_back({seats[r].get(), &bells[r], seats[r].get()->reached});
    for (std::size_t r = 0; r < size; ++r) all.emplace_back(places, static_cast<int>(r));
  }

  std::vector<MySeat> seats;
  std::vector<FutexEvent> bells;
  std::vector<MpiSharedBarrier> all;
};

std::vector<Told> heard_by(MpiSharedBarrier& rank, std::uint64_t meeting)
{
  std::vector<Told> all;
  rank.hear(meeting, [&](std::size_t, const Told& told) { all.push_back(told); });
  return all;
}

}  // namespace

TEST_CASE("a meeting is complete when all have come, and the last one rings for the others")
{
  Ranks ranks{3};
  auto& a = ranks.all[0];
  auto& b = ranks.all[1];
  auto& c = ranks.all[2];
  CHECK(a.next() == 1);
  CHECK(b.next() == 1);
  CHECK(c.next() == 1);
  CHECK(a.come(1, {10, 11}));
  CHECK(c.come(1, {30, 31}));
  CHECK_FALSE(a.complete(1));
  CHECK(a.missing(1) == std::vector{1});
  CHECK(ranks.bells[0].rings() == 0);
  CHECK(b.come(1, {20, 21}));
  for (auto* rank : {&a, &b, &c})
  {
    CHECK(rank->complete(1));
    CHECK(rank->missing(1).empty());
    CHECK(heard_by(*rank, 1) == std::vector<Told>{{10, 11}, {20, 21}, {30, 31}});
  }
  CHECK(ranks.bells[0].rings() == 1);
  CHECK(ranks.bells[1].rings() == 0);
  CHECK(ranks.bells[2].rings() == 1);
}

TEST_CASE("a rank may be many meetings ahead, but nothing is lost that another has not heard")
{
  Ranks ranks{2};
  auto& ahead = ranks.all[0];
  auto& behind = ranks.all[1];
  for (std::uint64_t m = 1; m <= Seat::kept; ++m)
  {
    REQUIRE(ahead.next() == m);
    REQUIRE(ahead.come(m, {m, 0}));
  }
  const std::uint64_t next = ahead.next();
  const std::uint64_t after = ahead.next();
  CHECK_FALSE(ahead.come(next, {next, 0}));
  for (std::uint64_t m = 1; m <= 3; ++m) REQUIRE(behind.come(behind.next(), {0, m}));
  // The first one is not heard by all, whatever comes of later ones.
  for (const std::uint64_t m : {3U, 2U})
    for (auto* rank : {&ahead, &behind})
      CHECK(heard_by(*rank, m) == std::vector<Told>{{m, 0}, {0, m}});
  CHECK_FALSE(ahead.come(next, {next, 0}));
  CHECK(heard_by(ahead, 1) == std::vector<Told>{{1, 0}, {0, 1}});
  CHECK_FALSE(ahead.come(next, {next, 0}));
  CHECK(heard_by(behind, 1) == std::vector<Told>{{1, 0}, {0, 1}});
  CHECK_FALSE(ahead.come(after, {after, 0}));  // not before the one before it
  CHECK(ahead.come(next, {next, 0}));
  CHECK(ahead.come(after, {after, 0}));
}

TEST_CASE("who waits for something else sees what a rank told at a meeting that is not heard yet")
{
  Ranks ranks{2};
  auto& waits = ranks.all[0];
  auto& other = ranks.all[1];
  const auto is_nine = [](const Told& told) { return told[0] == 9; };
  CHECK(waits.stranger(is_nine) == -1);
  REQUIRE(other.come(other.next(), {8}));
  CHECK(waits.stranger(is_nine) == -1);
  REQUIRE(other.come(other.next(), {9}));
  CHECK(waits.stranger(is_nine) == 1);
  for (const std::uint64_t m : {1U, 2U})
  {
    REQUIRE(waits.come(waits.next(), {7 + m}));
    (void)heard_by(waits, m);
  }
  CHECK(waits.stranger(is_nine) == -1);
}

TEST_CASE("seats are used again, and count on")
{
  Seat* before = nullptr;
  {
    Ranks ranks{1};
    before = ranks.seats[0].get();
    REQUIRE(ranks.all[0].come(ranks.all[0].next(), {7, 7}));
    CHECK(heard_by(ranks.all[0], 1) == std::vector<Told>{{7, 7}});
  }
  Ranks ranks{1};
  CHECK(ranks.seats[0].get() == before);
  CHECK(before->reached > 0);
  REQUIRE(ranks.all[0].next() == 1);
  CHECK_FALSE(ranks.all[0].complete(1));
  REQUIRE(ranks.all[0].come(1, {8, 8}));
  CHECK(heard_by(ranks.all[0], 1) == std::vector<Told>{{8, 8}});

  MySeat kept;
  const Seat* const seat = kept.get();
  kept.keep();
  CHECK(MySeat{}.get() != seat);
}

TEST_CASE("communicators of one node meet, many times, in halves and as a whole")
{
  require_clear(on_ranks<Mpi>(fits(4) ? 4 : 1, [](MpiCommunicator& world) {
    Findings found;
    auto half = world.split(world.rank() % 2, 0);
    found.check(world.remote() || world.exposes(), "ranks of one node do not expose");
    if (world.remote()) return found;
    using Request = decltype(world.async_barrier());
    std::vector<std::uint64_t> mine(2000);
    for (int round = 0; round < 100; ++round)
    {
      std::vector<Request> under_way;
      for (int i = 0; i < 100; ++i)  // more than a seat keeps
        under_way.push_back(i % 3 == 0 ? half.async_barrier() : world.async_barrier());
      auto window = half.expose(mine);
      const int other = half.size() - 1 - half.rank();
      found.check(window[other][0] == static_cast<std::uint64_t>(round), "what rank ", other,
                  " exposes in round ", round);
      window.close();
      window.wait();
      mine[0] = static_cast<std::uint64_t>(round) + 1;
      for (auto& request : under_way) request.wait();
    }
    return found;
  }));
}
