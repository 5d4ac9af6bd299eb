// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "cubist/comm/backoff.hpp"

#include "catch.hpp"

namespace comm_backoff_test
{

using cubist::detail::Backoff;
using namespace std::chrono_literals;

TEST_CASE("a pause is at least a quarter of the time waited, after the first polls")
{
  Backoff backoff;
  for (int polls = 1; polls < 16; ++polls) backoff.pause();
  for (int pauses = 0; pauses < 40; ++pauses)
  {
    const auto before = backoff.waited();
    backoff.pause();
    const auto shortest = std::clamp<Backoff::Clock::duration>(before / 4, 2us, 500us);
    REQUIRE(backoff.waited() - before >= shortest);
  }
}

TEST_CASE("a backoff that is to yield for a while does not sleep in it, unless a yield takes long")
{
  std::vector<std::pair<int, int>> counts;  // yields and sleeps
  const auto pause = [&](Backoff& backoff, int times, Backoff::Clock::duration of_yield) {
    auto& n = counts.emplace_back(0, 0);
    for (int i = 0; i < times; ++i)
      backoff.pause([&](auto) { ++n.second; }, 2us, 500us, [&] { return ++n.first, of_yield; });
  };
  // On a thread that no other test has told that the machine is busy.
  std::thread{[&] {
    Backoff yields{1h}, sleeps, again;
    pause(yields, 100, 3us);
    pause(sleeps, 100, 3us);
    pause(yields, 201, 1ms);
    pause(again, 15, 3us);
  }}.join();
  CHECK(counts == std::vector<std::pair<int, int>>{{100, 0}, {15, 85}, {1, 200}, {15, 0}});
}

}  // namespace comm_backoff_test
