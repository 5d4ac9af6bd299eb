// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <cstddef>

#include "cubist/memory/futex_event.hpp"

#include "watchdog.hpp"

namespace cubist::test::memory_futex_event_test
{

using cubist::detail::FutexEvent;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

TEST_CASE("a thread waits until it is notified")
{
  const Watchdog watchdog;
  FutexEvent event;
  std::atomic<bool> ready{false};
  std::atomic<bool> seen{false};
  std::thread waiting{[&] {
    while (!ready)
      event.wait_unless([&] { return ready.load(); }, Clock::now() + 60s);  // longer than it takes
    seen = true;
  }};
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(seen);
  ready = true;
  event.notify();
  waiting.join();
  CHECK(seen);
}

TEST_CASE("a notification since the count was read ends a wait at once")
{
  const Watchdog watchdog;
  FutexEvent event;
  const auto count = event.count();
  event.notify();
  CHECK(event.count() == count + 1);
  const auto before = Clock::now();
  event.wait(count, Clock::now() + 60s);
  CHECK(Clock::now() - before < 30s);
}

TEST_CASE("a notification after the condition was looked at ends a wait at once")
{
  const Watchdog watchdog;
  FutexEvent event;
  int looks = 0;
  event.wait_unless([&] {
    ++looks;
    event.notify();  // too late for this look
    return false;
  });
  event.wait_unless([&] { return ++looks > 0; });
  CHECK(looks == 2);
}

TEST_CASE("without a notification, a wait ends at the time that it was given")
{
  FutexEvent event;
  const auto before = Clock::now();
  event.wait(event.count(), before + 2ms);
  CHECK(Clock::now() - before >= 2ms);
}

/// Notifies two of three waiting threads. Returns whether the third one wakes.
static bool third_wakes()
{
  FutexEvent event;
  std::array<std::atomic<int>, 3> woken{};
  std::atomic<bool> over{false};
  const auto count = event.count();
  const auto wait = [&](std::size_t me) {
    for (auto seen = count; !over; seen = event.count())
    {
      event.wait(seen, Clock::time_point::max(), FutexEvent::Mask{1} << me);
      ++woken[me];
    }
  };
  std::array<std::thread, 3> threads;
  for (std::size_t t = 0; t < 3; ++t) threads[t] = std::thread{wait, t};
  std::this_thread::sleep_for(20ms);
  event.notify(0b101);
  while (woken[0] == 0 || woken[2] == 0) std::this_thread::yield();
  std::this_thread::sleep_for(5ms);
  const bool wakes = woken[1] > 0;
  over = true;
  event.notify();
  for (auto& t : threads) t.join();
  return wakes;
}

TEST_CASE("a notification wakes those whose bits it names, and no others")
{
  const Watchdog watchdog;
  // On a busy machine the third thread may begin to wait only after the notification, and then
  // returns at once.
  bool wakes = true;
  for (int i = 0; i < 20 && wakes; ++i) wakes = third_wakes();
  CHECK_FALSE(wakes);
}

TEST_CASE("no notification is lost between two threads that notify each other")
{
  const Watchdog watchdog;
  std::array<FutexEvent, 2> events;
  std::atomic<int> step{0};
  constexpr int steps = 20'000;
  const auto run = [&](std::size_t me) {
    for (int t = static_cast<int>(me); t < steps; t += 2)
    {
      while (step != t) events[me].wait_unless([&] { return step == t; }, Clock::now() + 60s);
      step = t + 1;
      events[1 - me].notify();
    }
  };
  std::thread other{run, 1};
  run(0);
  other.join();
  CHECK(step == steps);
}

}  // namespace cubist::test::memory_futex_event_test
