// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cubist/comm/mpi/barrier.hpp"

#include "catch.hpp"

// The ranks are seats of one process, as in mpi_meetings_test.cpp.

using namespace cubist;
using detail::FutexEvent;
using detail::MpiBarrierCall;
using detail::MpiSharedBarrier;
using detail::MySeat;
using detail::Part;

namespace
{

struct Two
{
  Two()
  {
    std::vector<MpiSharedBarrier::Place> places;
    for (std::size_t r = 0; r < 2; ++r)
      places.push_back({seats[r].get(), &bells[r], seats[r].get()->reached});
    for (int r = 0; r < 2; ++r) all.emplace_back(places, r);
  }

  std::array<MySeat, 2> seats;
  std::array<FutexEvent, 2> bells;
  std::vector<MpiSharedBarrier> all;
};

using Numbers = std::array<std::uint64_t, 2>;

Part part(const Numbers& numbers)
{
  return {reinterpret_cast<const std::byte*>(numbers.data()), sizeof numbers};
}

}  // namespace

TEST_CASE("each hears what all told once all have come")
{
  Two ranks;
  std::array<MpiBarrierCall, 2> meetings;
  const std::array<Numbers, 2> told{Numbers{1, 2}, Numbers{3, 4}};
  std::array<std::array<Numbers, 2>, 2> heard{};
  for (std::size_t r = 0; r < 2; ++r)
    meetings[r].begin(ranks.all[r], 5, part(told[r]), reinterpret_cast<std::byte*>(&heard[r]));
  static_assert(MpiBarrierCall::most == sizeof(Numbers));

  MpiBarrierCall::Stranger stranger;
  CHECK_FALSE(meetings[0].advance(stranger));
  CHECK(meetings[0].missing() == std::vector{1});
  CHECK(meetings[1].advance(stranger));
  CHECK(heard[1] == told);
  CHECK(meetings[0].advance(stranger));
  CHECK(meetings[0].missing().empty());
  CHECK(heard[0] == told);
  CHECK(stranger.rank == -1);
}

TEST_CASE("who comes with another call is known to all")
{
  Two ranks;
  std::array<MpiBarrierCall, 2> meetings;
  for (std::size_t r = 0; r < 2; ++r)
    meetings[r].begin(ranks.all[r], 5 + static_cast<int>(r), {}, nullptr);
  std::array<MpiBarrierCall::Stranger, 2> strangers;
  CHECK_FALSE(meetings[0].advance(strangers[0]));
  CHECK(meetings[1].advance(strangers[1]));
  CHECK(meetings[0].advance(strangers[0]));
  CHECK(strangers[0].rank == 1);
  CHECK(strangers[0].tag == 6);
  CHECK(strangers[1].rank == 0);
  CHECK(strangers[1].tag == 5);
}
