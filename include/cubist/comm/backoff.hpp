// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The growing pauses between the polls of a waiting rank.

#include <algorithm>
#include <chrono>
#include <thread>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Pauses between polls. The first 15 pauses only yield; each later one sleeps for a quarter of the
/// time waited so far, because there may be more ranks than cores, and a poll may call MPI.
class Backoff
{
 public:
  using Clock = std::chrono::steady_clock;

  Backoff() = default;
  /// Only yields during the first `yields` of the wait, too, because even the shortest sleep may
  /// take 100 us.
  explicit Backoff(Clock::duration yields)
      : yields_{yields}
  {
  }

  /// Yields and returns zero, or sleeps for 2 to 500 us and returns the time waited before that.
  Clock::duration pause()
  {
    using namespace std::chrono_literals;
    return pause([](Clock::duration d) { std::this_thread::sleep_for(d); }, 2us, 500us);
  }
  /// Pauses with sleep(duration), where the duration is between `shortest` and `longest`.
  template <class F>
  Clock::duration pause(F sleep, Clock::duration shortest, Clock::duration longest)
  {
    if (++polls_ < 16 || (yields_ > Clock::duration{} && waited() < yields_))
    {
      std::this_thread::yield();
      return {};
    }
    const auto so_far = waited();
    sleep(std::clamp<Clock::duration>(so_far / 4, shortest, longest));
    return so_far;
  }
  [[nodiscard]] Clock::duration waited() const { return Clock::now() - start_; }

 private:
  Clock::duration yields_{};
  Clock::time_point start_ = Clock::now();
  int polls_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
