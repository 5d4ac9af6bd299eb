// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The stream on which a rank computes: CUDA's own of the rank's thread. Memory, products, maps and
// folds are given to it in the order of the program, and the host waits for it only where it looks
// at results.

#include <functional>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/device/check.hpp"

namespace cubist
{

class ComputeStream
{
 public:
  [[nodiscard]] static cudaStream_t get() { return cudaStreamPerThread; }

  /// Waits until the device has done all that this thread has given it.
  /// @throws DeviceError for an error of that work
  static void synchronize()
  {
    if (wait()) wait()();
    detail::require_cuda(cudaStreamSynchronize(get()), "cudaStreamSynchronize",
                         "the work of this rank");
  }

  /// Lets this thread wait by `wait`, which returns when the stream has nothing left to do: a
  /// backend looks after the other ranks meanwhile, as the stream may wait for one that is gone.
  /// Empty, it waits for the device alone.
  static void wait_by(std::function<void()> how) { wait() = std::move(how); }

 private:
  static std::function<void()>& wait()
  {
    static thread_local std::function<void()> how;
    return how;
  }
};

}  // namespace cubist
