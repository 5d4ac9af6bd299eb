// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The stream on which a rank computes: CUDA's per-thread default stream of the rank's thread.
// Memory, products, maps and folds are enqueued in program order, and the host waits only where it
// reads results.

#include <functional>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/capture.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{
/// The device of this thread.
[[nodiscard]] inline int current_device()
{
  int device = 0;
  require_cuda(cudaGetDevice(&device), "cudaGetDevice", "the work of this rank");
  return device;
}
}  // namespace detail

class ComputeStream
{
 public:
  /// The stream of this rank's thread.
  [[nodiscard]] static cudaStream_t get() { return cudaStreamPerThread; }

  /// Waits until all work that this thread has enqueued is complete.
  /// @throws DeviceError for an error of that work, CaptureError while this thread captures
  static void synchronize()
  {
    detail::require_no_capture("a wait for the device (a result on the host needs one)");
    if (wait_function()) wait_function()();
    detail::require_cuda(cudaStreamSynchronize(get()), "cudaStreamSynchronize",
                         "the work of this rank");
  }

  /// Makes this thread's `synchronize` first call `wait`, which returns when the stream is idle. A
  /// backend's `wait` polls for failures, because the stream may wait for a rank that has ended.
  /// An empty function removes it.
  static void set_wait(std::function<void()> wait) { wait_function() = std::move(wait); }

 private:
  static std::function<void()>& wait_function()
  {
    static thread_local std::function<void()> function;
    return function;
  }
};

}  // namespace cubist::CUBIST_ABI
