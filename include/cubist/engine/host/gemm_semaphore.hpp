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
    Callers& callers = all();
    std::unique_lock lock{callers.mutex};
    callers.one_ends.wait(lock, [&] { return callers.active < limit(); });
    ++callers.active;
  }
  GemmSemaphore(const GemmSemaphore&) = delete;
  GemmSemaphore& operator=(const GemmSemaphore&) = delete;
  ~GemmSemaphore()
  {
    Callers& callers = all();
    {
      const std::lock_guard lock{callers.mutex};
      --callers.active;
    }
    callers.one_ends.notify_one();
  }

  /// The greatest number of concurrent callers.
  [[nodiscard]] static int limit()
  {
    static const auto most =
        static_cast<int>(std::clamp(16 * std::thread::hardware_concurrency(), 1U, 64U));
    return most;
  }

 private:
  struct Callers
  {
    std::mutex mutex;
    std::condition_variable one_ends;
    int active = 0;
  };
  static Callers& all()
  {
    static Callers callers;
    return callers;
  }
};

}  // namespace cubist::CUBIST_ABI::detail
