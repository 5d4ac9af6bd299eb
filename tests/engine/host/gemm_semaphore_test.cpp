// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <vector>

#include "cubist/engine/host/gemm_semaphore.hpp"

#include "watchdog.hpp"

namespace cubist::test::engine_host_gemm_semaphore_test
{

TEST_CASE("concurrent callers are limited, and all of them run")
{
  const Watchdog watchdog;
  const int limit = detail::GemmSemaphore::limit();
  CHECK(limit <= 64);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::atomic<int> calls{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 2 * limit; ++t)
      callers.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
        {
          const detail::GemmSemaphore semaphore;
          const int running = ++now;
          int before = most;
          while (before < running && !most.compare_exchange_weak(before, running))
            ;
          std::this_thread::yield();
          --now;
          ++calls;
        }
      });
  }
  CHECK(most <= limit);
  CHECK(calls == 2 * limit * 20);
}

}  // namespace cubist::test::engine_host_gemm_semaphore_test
