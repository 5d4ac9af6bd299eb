// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An event for which threads of one machine wait. They may belong to several processes if the event
// is in shared memory. It is a count of notifications and a Linux futex.
//
//   waiting thread     event.wait_unless([] { return whether the condition holds; }, end);
//   notifying thread   make the condition true; event.notify();
//
// The count is read before the condition, and the kernel compares it before the thread sleeps, so
// no notification between the two is lost.
//
// A notification may be for only some of the threads. Each of them has a bit, and one kernel call
// wakes all whose bits are in a mask.

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Zeroed memory is a valid event.
class FutexEvent
{
 public:
  using Clock = std::chrono::steady_clock;
  /// A set of up to 32 waiting threads, with one bit for each.
  using Mask = std::uint32_t;
  static constexpr Mask everyone = ~Mask{0};

  /// The number of notifications so far.
  [[nodiscard]] std::uint32_t count() const { return count_.load(); }

  void notify(Mask who = everyone)
  {
    count_.fetch_add(1);
    if (waiting_.load() > 0) futex(FUTEX_WAKE_BITSET, INT_MAX, nullptr, who);
  }

  /// Waits for the next notification, unless `holds()`. Returns at `end` at the latest; may return
  /// earlier.
  template <class Holds>
  void wait_unless(Holds holds, Clock::time_point end = Clock::time_point::max(),
                   Mask me = everyone)
  {
    const auto seen = count();
    if (!holds()) wait(seen, end, me);
  }

  /// Waits until the count differs from `seen`. Returns at `end` at the latest; may return earlier.
  /// @param me the bit of this thread
  void wait(std::uint32_t seen, Clock::time_point end = Clock::time_point::max(),
            Mask me = everyone)
  {
    const timespec time = since_boot(end);
    waiting_.fetch_add(1);
    futex(FUTEX_WAIT_BITSET, seen, end == Clock::time_point::max() ? nullptr : &time, me);
    waiting_.fetch_sub(1);
  }

 private:
  /// Converts a time to the form that the kernel takes for std::chrono::steady_clock.
  [[nodiscard]] static timespec since_boot(Clock::time_point time)
  {
    constexpr std::chrono::nanoseconds::rep second = 1'000'000'000;
    const std::chrono::nanoseconds all = time.time_since_epoch();
    return {static_cast<std::time_t>(all.count() / second),
            static_cast<long>(all.count() % second)};
  }

  void futex(int operation, std::uint32_t value, const timespec* end, Mask mask)
  {
    static_assert(sizeof count_ == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free);
    syscall(SYS_futex, &count_, operation, value, end, nullptr, mask);
  }

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace cubist::CUBIST_ABI::detail
