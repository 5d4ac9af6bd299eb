// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lets as many ranks multiply at once as there are cores. OpenBLAS has room for 64 callers, and
// more than one on a core only evict each other's panels from the cache.

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace cubist::detail
{

/// A rank's turn to multiply, until the end of the scope; making one waits for it.
class GemmTurn
{
 public:
  GemmTurn()
  {
    std::unique_lock lock{mutex()};
    condition().wait(lock, [] { return free() > 0; });
    --free();
  }
  GemmTurn(const GemmTurn&) = delete;
  GemmTurn& operator=(const GemmTurn&) = delete;
  ~GemmTurn()
  {
    {
      const std::lock_guard lock{mutex()};
      ++free();
    }
    condition().notify_one();
  }

 private:
  static std::mutex& mutex()
  {
    static std::mutex m;
    return m;
  }
  static std::condition_variable& condition()
  {
    static std::condition_variable c;
    return c;
  }
  static int& free()
  {
    static int f = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 64U));
    return f;
  }
};

}  // namespace cubist::detail
