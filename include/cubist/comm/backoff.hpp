// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a rank waits for what it must look for itself.

#include <algorithm>
#include <chrono>
#include <thread>

namespace cubist::detail
{

/// How long to leave the processor to others between two looks at what does not come: hardly at
/// first, later a quarter of the time waited so far. Ranks may be more than cores, and each look is
/// a call of MPI.
class Backoff
{
 public:
  using Clock = std::chrono::steady_clock;

  /// Says how long it has been waited so far, or nothing at first.
  Clock::duration pause()
  {
    using namespace std::chrono_literals;
    return pause([](Clock::duration d) { std::this_thread::sleep_for(d); }, 2us, 500us);
  }
  /// The same, by a `sleep` of its own, for so long at least and at most.
  template <class F>
  Clock::duration pause(F sleep, Clock::duration least, Clock::duration most)
  {
    if (++looks_ < 16)
    {
      std::this_thread::yield();
      return {};
    }
    const auto so_far = waited();
    sleep(std::clamp<Clock::duration>(so_far / 4, least, most));
    return so_far;
  }
  [[nodiscard]] Clock::duration waited() const { return Clock::now() - start_; }

 private:
  Clock::time_point start_ = Clock::now();
  int looks_ = 0;
};

}  // namespace cubist::detail
