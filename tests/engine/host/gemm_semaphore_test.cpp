// SPDX-License-Identifier: BSD-3-Clause
#include <atomic>
#include <thread>
#include <vector>

#include "cubist/engine/host/gemm_semaphore.hpp"

#include "catch.hpp"

using namespace cubist;

TEST_CASE("no more callers have their turn at once than BLAS has room for, and all get one")
{
  const int limit = detail::GemmSemaphore::most();
  CHECK(limit <= 64);
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::atomic<int> turns{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 2 * limit; ++t)
      callers.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
        {
          const detail::GemmSemaphore turn;
          const int here = ++now;
          int before = most;
          while (before < here && !most.compare_exchange_weak(before, here))
            ;
          std::this_thread::yield();
          --now;
          ++turns;
        }
      });
  }
  CHECK(most <= limit);
  CHECK(turns == 2 * limit * 20);
}
