// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lets a waiting rank yield its core before it sleeps. Once the rank can go on, it does so without
// a kernel call to wake it. With 8 ranks on 2 cores, a barrier takes a third of the time that it
// takes if all but the last rank sleep.
//
// Where other processes compute, a yield costs one of their time slices, which is hundreds of times
// the wait itself. So yields are timed. If one takes long and this process does not have all cores
// that its ranks need, ranks sleep at once for a while, and then try again.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <mutex>
#include <thread>
#include <utility>

#include "cubist/comm/threads/rank_cores.hpp"
#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Pauses for some nanoseconds, in which the core's other hardware thread may compute.
inline void pause_core()
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

/// Tells from this process's processor time whether other processes use the cores, too.
class SharedCores
{
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  /// @param used  the processor time that this process has used until `now`
  SharedCores(int cores, Time now, Clock::duration used)
      : cores_{cores},
        last_{now},
        used_{used}
  {
  }

  /// Whether this process has had less than three quarters of the cores that it needed since the
  /// last call. False if that call was too recent for the kernel's counts, or so long ago that the
  /// ranks may not have computed all the time.
  /// @param needed  the cores on which its ranks compute now; it needed the lesser of this and the
  /// number at the last call, but at least one
  [[nodiscard]] bool others_compute(Time now, Clock::duration used, int needed)
  {
    const auto time = now - last_;
    if (time < shortest) return false;
    const auto had = used - used_;
    const int cores = std::max(1, std::min(std::exchange(cores_, needed), needed));
    last_ = now;
    used_ = used;
    return time < longest && had * 4 < time * 3 * cores;
  }

 private:
  static constexpr std::chrono::milliseconds shortest{4}, longest{40};

  int cores_;
  Time last_;
  Clock::duration used_;
};

class CoreYield
{
 public:
  using Clock = std::chrono::steady_clock;

  explicit CoreYield(int cores)
      : cores_{cores, Clock::now(), processor_time()}
  {
  }

  /// Whether ranks sleep at once, because other processes compute.
  [[nodiscard]] bool is_paused(Clock::time_point now = Clock::now()) const
  {
    return now.time_since_epoch().count() < sleeps_until_.load(std::memory_order_relaxed);
  }

  /// Yields until `ready()`, at most a few times or, if that is longer, for the time `least`.
  template <class Ready>
  void until(Ready ready, Clock::duration least, const RankCores& ranks)
  {
    auto now = Clock::now();
    if (is_paused(now)) return;
    const auto end = now + least;
    for (int i = 0; (i < most_yields || now < end) && !ready(); ++i)
    {
      const auto begin = now;
      std::this_thread::yield();
      now = Clock::now();
      if (now - begin > slow && others_compute(now, ranks.busy())) return;
    }
  }

 private:
  static constexpr int most_yields = 8;
  /// Longer than the switches between 64 ranks, shorter than a time slice.
  static constexpr std::chrono::microseconds slow{500};
  static constexpr std::chrono::milliseconds pause{250};

  [[nodiscard]] static Clock::duration processor_time()
  {
    const double seconds = static_cast<double>(std::clock()) / double{CLOCKS_PER_SEC};
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>{seconds});
  }

  /// Whether other processes compute. If so, ranks sleep at once for the next `pause`.
  bool others_compute(Clock::time_point now, int needed)
  {
    const std::lock_guard lock{mutex_};
    if (!cores_.others_compute(now, processor_time(), needed)) return false;
    sleeps_until_.store((now + pause).time_since_epoch().count(), std::memory_order_relaxed);
    return true;
  }

  std::atomic<Clock::rep> sleeps_until_{Clock::time_point::min().time_since_epoch().count()};
  std::mutex mutex_;
  SharedCores cores_;
};

}  // namespace cubist::CUBIST_ABI::detail
