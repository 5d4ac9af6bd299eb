// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Backoff of a rank that polls.

#include <algorithm>
#include <chrono>
#include <thread>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Pauses between polls: the first 15 only yield, each later one sleeps a quarter of the time
/// waited so far. There may be more ranks than cores, and a poll may be a call of MPI.
///
/// Where other processes are busy, a yield costs a time slice of each, but a thread that sleeps
/// runs soon after it is woken. So after a yield that took long a thread sleeps in its next pauses.
class Backoff
{
 public:
  using Clock = std::chrono::steady_clock;

  Backoff() = default;
  /// Only yields for as long as `yields`, too: the shortest sleep takes a system some 100 us.
  explicit Backoff(Clock::duration yields) : yields_{yields} {}

  /// Pauses for 2 to 500 us, and returns the time waited before, or zero after a yield.
  Clock::duration pause()
  {
    using namespace std::chrono_literals;
    return pause([](Clock::duration d) { std::this_thread::sleep_for(d); }, 2us, 500us);
  }
  /// Pauses by a given `sleep`, within the given bounds, or by `yield`, which returns how long it
  /// took.
  template <class F, class Y = Clock::duration (*)()>
  Clock::duration pause(F sleep, Clock::duration shortest, Clock::duration longest,
                        Y yield = timed_yield)
  {
    using namespace std::chrono_literals;
    // For ranks that only wait for each other a yield takes some microseconds.
    constexpr int next_pauses = 200;
    int& sleeps = sleeps_instead();
    if (++polls_ < 16 || (yields_ > Clock::duration{} && waited() < yields_))
    {
      if (sleeps == 0)
      {
        if (yield() > 200us) sleeps = next_pauses;
        return {};
      }
      --sleeps;
    }
    const auto so_far = waited();
    sleep(std::clamp<Clock::duration>(so_far / 4, shortest, longest));
    return so_far;
  }
  [[nodiscard]] Clock::duration waited() const { return Clock::now() - start_; }

 private:
  static Clock::duration timed_yield()
  {
    const auto before = Clock::now();
    std::this_thread::yield();
    return Clock::now() - before;
  }

  /// How many pauses of this thread sleep instead of yielding.
  static int& sleeps_instead()
  {
    static thread_local int pauses = 0;
    return pauses;
  }

  Clock::duration yields_{};
  Clock::time_point start_ = Clock::now();
  int polls_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
