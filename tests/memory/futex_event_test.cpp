// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <chrono>
#include <thread>

#include "cubist/memory/futex_event.hpp"

#include "catch.hpp"

using cubist::detail::FutexEvent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_CASE("one sleeps until a bell rings")
{
  FutexEvent bell;
  std::atomic<bool> brought{false};
  std::atomic<bool> seen{false};
  std::thread sleeper{[&] {
    for (;;)
    {
      const auto known = bell.rings();
      if (brought) break;
      bell.sleep(known, 60s);  // longer than the test may take
    }
    seen = true;
  }};
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(seen);
  brought = true;
  bell.ring();
  sleeper.join();
  CHECK(seen);
}

TEST_CASE("a ring since the last look ends a sleep before it begins")
{
  FutexEvent bell;
  const auto known = bell.rings();
  bell.ring();
  CHECK(bell.rings() == known + 1);
  const auto before = Clock::now();
  bell.sleep(known, 60s);
  CHECK(Clock::now() - before < 30s);
}

TEST_CASE("without a ring, sleep ends in time")
{
  FutexEvent bell;
  const auto before = Clock::now();
  bell.sleep(bell.rings(), 2ms);
  CHECK(Clock::now() - before >= 1ms);
}

TEST_CASE("no ring is lost between two that answer each other")
{
  FutexEvent bells[2];
  std::atomic<int> turn{0};
  constexpr int turns = 20'000;
  const auto play = [&](int me) {
    for (int t = me; t < turns; t += 2)
    {
      for (;;)
      {
        const auto known = bells[me].rings();
        if (turn == t) break;
        bells[me].sleep(known, 60s);
      }
      turn = t + 1;
      bells[1 - me].ring();
    }
  };
  std::thread other{play, 1};
  play(0);
  other.join();
  CHECK(turn == turns);
}
