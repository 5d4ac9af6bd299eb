// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// An event in shared memory, on which processes of one machine wait: a count of notifications, and
// Linux's futex.
//
//   waiting process     const auto seen = event.count();
//                       check the condition; unless it holds,
//                       event.wait(seen, timeout);   returns at once after a notification since
//                       then
//   notifying process   make the condition true; event.notify();

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
  /// The number of notifications so far.
  [[nodiscard]] std::uint32_t count() const { return count_.load(); }

  void notify()
  {
    count_.fetch_add(1);
    if (waiting_.load() > 0) futex(FUTEX_WAKE, INT_MAX, nullptr);
  }

  /// Waits until the count is not `seen`, but no longer than `timeout`; may return earlier.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout)
  {
    constexpr std::chrono::nanoseconds::rep second = 1'000'000'000;
    const timespec time{static_cast<std::time_t>(timeout.count() / second),
                        static_cast<long>(timeout.count() % second)};
    waiting_.fetch_add(1);
    futex(FUTEX_WAIT, seen, &time);
    waiting_.fetch_sub(1);
  }

 private:
  void futex(int operation, std::uint32_t value, const timespec* timeout)
  {
    static_assert(sizeof count_ == sizeof(std::uint32_t) &&
                  std::atomic<std::uint32_t>::is_always_lock_free);
    syscall(SYS_futex, &count_, operation, value, timeout, nullptr, 0);
  }

  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace cubist::CUBIST_ABI::detail
