// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the mocks of CUDA and NCCL have in common.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "fake.hpp"

namespace cubist::test::fake
{

struct Counts
{
  std::atomic<int> communicators = 0;
  std::atomic<int> streams = 0;
  std::atomic<int> events = 0;
  std::atomic<int> allocations = 0;
  std::atomic<int> graphs = 0;
  std::atomic<int> registrations = 0;
  std::atomic<int> pinned = 0;
  std::atomic<int> aborts = 0;
  std::atomic<int> violations = 0;
};
inline Counts counts;

/// The error code that a call returns instead of doing its work, or 0.
[[nodiscard]] int injected(const char* function);
[[nodiscard]] bool on_device(const void* data, std::size_t bytes);
/// The stream of a handle; cudaStreamPerThread is a different stream on each thread.
[[nodiscard]] cudaStream_t resolved(cudaStream_t stream);

struct Capture;

/// A point in a stream's work.
class Point
{
 public:
  void reach()
  {
    const std::lock_guard lock{mutex_};
    reached_ = true;
    when_ = std::chrono::steady_clock::now();
    changed_.notify_all();
  }
  void wait()
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [this] { return reached_; });
  }
  [[nodiscard]] bool reached()
  {
    const std::lock_guard lock{mutex_};
    return reached_;
  }
  /// @pre the point was reached
  [[nodiscard]] std::chrono::steady_clock::time_point when()
  {
    const std::lock_guard lock{mutex_};
    return when_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool reached_ = false;
  std::chrono::steady_clock::time_point when_;
};

}  // namespace cubist::test::fake

/// A thread that runs tasks in order.
struct CUstream_st
{
  CUstream_st();
  ~CUstream_st();
  /// Adds a task; while capturing, every launch of the graph runs it.
  void enqueue(std::function<void()> task);
  /// While capturing, adds a task that is created again for each launch.
  void record(std::function<std::function<void()>()> make);
  void run();

  std::shared_ptr<cubist::test::fake::Capture> capture;  // while capturing

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> tasks;  // the first is running
  bool stopped = false;
  std::thread worker;
};
