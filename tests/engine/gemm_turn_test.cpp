// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "cubist/engine/gemm_turn.hpp"

#include "catch.hpp"

using namespace cubist;

TEST_CASE("no more callers have their turn at once than there are cores, and all get one")
{
  const int cores = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
  std::atomic<int> now{0};
  std::atomic<int> most{0};
  std::atomic<int> turns{0};
  {
    std::vector<std::jthread> callers;
    for (int t = 0; t < 3 * cores; ++t)
      callers.emplace_back([&] {
        for (int i = 0; i < 20; ++i)
        {
          const detail::GemmTurn turn;
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
  CHECK(most <= cores);
  CHECK(turns == 3 * cores * 20);
}
