// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Limits how many threads call BLAS at once: OpenBLAS has buffers for 64 callers. A lower limit,
// such as the number of cores, is slower: ranks that share the cores finish together, and ranks
// that queue leave cores idle at the end. Measured: docs/decisions/0007-blas.md.

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The constructor acquires the semaphore, and the destructor releases it.
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

  /// The greatest number of concurrent callers.
  [[nodiscard]] static int limit()
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
    static int f = limit();
    return f;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
