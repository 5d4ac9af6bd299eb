// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Lets so many ranks multiply at once that OpenBLAS, which has room for 64 callers, takes them all.
//
// Fewer, such as one a core, would be slower: ranks that share the cores in slices of time end
// together, and ranks that take turns leave a core idle before the last ones end. Measured:
// docs/decisions/0007-blas.md.

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace cubist::detail
{

/// A rank's turn to multiply, until the end of the scope; making one waits for it.
class GemmSemaphore
{
 public:
  GemmSemaphore()
  {
    std::unique_lock lock{mutex()};
    condition().wait(lock, [] { return free() > 0; });
    --free();
  }
  GemmSemaphore(const GemmSemaphore&) = delete;
  GemmSemaphore& operator=(const GemmSemaphore&) = delete;
  ~GemmSemaphore()
  {
    {
      const std::lock_guard lock{mutex()};
      ++free();
    }
    condition().notify_one();
  }

  /// How many have their turn at once.
  [[nodiscard]] static int most()
  {
    return static_cast<int>(std::clamp(16 * std::thread::hardware_concurrency(), 1U, 64U));
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
    static int f = most();
    return f;
  }
};

}  // namespace cubist::detail
