// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstddef>

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/kernel_calls.hpp"

namespace bench
{

namespace
{

/// Counts of some of the threads: with several of these, threads seldom share a cache line.
struct alignas(64) KernelCounts
{
  std::atomic<std::size_t> yields{0};
  std::atomic<std::size_t> waits{0};
  std::atomic<std::size_t> wakes{0};
};

constinit std::array<KernelCounts, 64> kernel_counts{};

KernelCounts& counts_of_this_thread()
{
  static std::atomic<std::size_t> threads{0};
  thread_local KernelCounts& mine = kernel_counts[threads++ % kernel_counts.size()];
  return mine;
}

long call_kernel(long number, const std::array<long, 6>& a)
{
  using Function = long (*)(long, ...);
  static const auto original = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "syscall"));
  return original(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // namespace

KernelCalls KernelCalls::now()
{
  KernelCalls all;
  for (const auto& some : kernel_counts)
  {
    all.yields += static_cast<double>(some.yields);
    all.waits += static_cast<double>(some.waits);
    all.wakes += static_cast<double>(some.wakes);
  }
  return all;
}

}  // namespace bench

extern "C" long syscall(long number, ...) noexcept
{
  std::array<long, 6> a{};  // more than most calls have; the rest is unused
  std::va_list arguments;
  va_start(arguments, number);
  for (long& x : a) x = va_arg(arguments, long);
  va_end(arguments);
  if (number == SYS_futex)
  {
    const long operation = a[1] & FUTEX_CMD_MASK;
    auto& counts = bench::counts_of_this_thread();
    if (operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET) ++counts.waits;
    if (operation == FUTEX_WAKE || operation == FUTEX_WAKE_BITSET) ++counts.wakes;
  }
  return bench::call_kernel(number, a);
}

extern "C" int sched_yield() noexcept
{
  ++bench::counts_of_this_thread().yields;
  return static_cast<int>(bench::call_kernel(SYS_sched_yield, {}));
}
