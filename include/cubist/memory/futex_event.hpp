// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How a process sleeps until another one of its machine rings: a count of rings in memory that both
// have, and Linux's futex.
//
//   the one that waits    const auto known = bell.rings();
//                         look for what it waits for; if it has not come,
//                         bell.sleep(known, longest);   which a ring since then ends at once
//   the other             bring it; bell.ring();

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cubist::detail
{

/// Zeroed memory is one, too.
class FutexEvent
{
 public:
  [[nodiscard]] std::uint32_t rings() const { return rings_.load(); }

  void ring()
  {
    rings_.fetch_add(1);
    if (sleepers_.load() > 0) futex(FUTEX_WAKE, INT_MAX, nullptr);
  }

  /// Until it has rung more often than is `known`, but not longer than that; may return earlier.
  void sleep(std::uint32_t known, std::chrono::nanoseconds longest)
  {
    constexpr std::chrono::nanoseconds::rep second = 1'000'000'000;
    const timespec time{static_cast<std::time_t>(longest.count() / second),
                        static_cast<long>(longest.count() % second)};
    sleepers_.fetch_add(1);
    futex(FUTEX_WAIT, known, &time);
    sleepers_.fetch_sub(1);
  }

 private:
  void futex(int what, std::uint32_t value, const timespec* time)
  {
    static_assert(sizeof rings_ == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free);
    syscall(SYS_futex, &rings_, what, value, time, nullptr, 0);
  }

  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace cubist::detail
