// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ends a test of waits if a wait does not end that must. ctest's limit alone would end it minutes
// later, and would not say which of the process's cases waits.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "catch.hpp"
#include "sanitized.hpp"

namespace cubist::test
{

class Watchdog
{
 public:
  /// Far longer than such a test takes on a busy machine, but far shorter than ctest's limit.
  static constexpr std::chrono::seconds usual{sanitized ? 200 : 60};

  /// Ends the process with a message and status 1 if the object exists for longer than `limit`.
  /// @pre called on the main thread, in a test case
  explicit Watchdog(std::chrono::milliseconds limit = usual)
      : thread_{[this, limit, test = std::string{Catch::getResultCapture().getCurrentTestName()}] {
          std::unique_lock lock{mutex_};
          if (ended_.wait_for(lock, limit, [this] { return has_ended_; })) return;
          std::fprintf(stderr,
                       "the test '%s' has not ended after %lld ms, so a wait goes on that must "
                       "end; the process ends here\n",
                       test.c_str(), static_cast<long long>(limit.count()));
          std::_Exit(1);  // destructors would wait for the threads that wait
        }}
  {
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog()
  {
    {
      const std::scoped_lock lock{mutex_};
      has_ended_ = true;
    }
    ended_.notify_one();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool has_ended_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace cubist::test
