// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Calls a hook after a thread has looked whether it must wait, and before it sleeps in a futex: a
// wake-up would be lost there. This header replaces `syscall`, by which the kernel is called, for
// the whole program, so the tested code is the code that programs run.

#include <cstdarg>
#include <functional>
#include <utility>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cubist::test
{

/// Calls `before` whenever this thread is about to sleep in a futex, for the lifetime of the
/// object.
class SleepHook
{
 public:
  explicit SleepHook(std::function<void()> before)
      : before_{std::move(before)}
  {
    current() = this;
  }
  SleepHook(const SleepHook&) = delete;
  SleepHook& operator=(const SleepHook&) = delete;
  ~SleepHook() { current() = nullptr; }

  static void run()
  {
    // The hook itself may sleep, and that must not call the hook again.
    if (SleepHook* const hook = std::exchange(current(), nullptr); hook != nullptr)
    {
      hook->before_();
      current() = hook;
    }
  }

 private:
  static SleepHook*& current()
  {
    thread_local SleepHook* hook = nullptr;
    return hook;
  }

  std::function<void()> before_;
};

}  // namespace cubist::test

// `used`, because the files that call it may be compiled apart from this one.
extern "C" __attribute__((used, no_sanitize("address"))) inline long syscall(long number,
                                                                             ...) noexcept
{
  using Function = long (*)(long, ...);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  long a[6];  // those that a call lacks are not used
  std::va_list arguments;
  va_start(arguments, number);
  for (long& x : a) x = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_futex && static_cast<int>(a[1]) == FUTEX_WAIT_BITSET)
    cubist::test::SleepHook::run();
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
