// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Copies to the host on their own stream, beside the work of the compute stream:
//
//   compute stream   … earlier work │ waits          │ later work …
//   own stream            waits     │ copies         │
//   host             … enqueues the copies, and then the later work
//
// CUDA copies to pageable memory only while the host waits, so the memory is pinned. Pinning takes
// about as long as writing to each of its pages, and happens once.
// Source: NVIDIA, CUDA runtime API, "API synchronization behavior".

#include <chrono>
#include <cstddef>
#include <span>
#include <thread>

#include <cuda_runtime_api.h>

#include "cubist/cuda/check.hpp"
#include "cubist/cuda/stream.hpp"
#include "cubist/engine/cuda/capture.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/transfer.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Copies to one part of host memory, at most one list of matrices at a time.
class CudaDownloads
{
 public:
  /// Pins the memory, which must exist longer than this object. If CUDA refuses, copies take the
  /// host's time instead.
  /// @throws CommunicationError if the device has no stream for the copies
  explicit CudaDownloads(std::span<std::byte> host)
      : device_{current_device()}
  {
    if (host.empty()) return;
    const auto code = cudaHostRegister(host.data(), host.size(), cudaHostRegisterDefault);
    if (code == cudaSuccess)
      pinned_ = host.data();
    else
      static_cast<void>(cudaGetLastError());  // otherwise a later call would report it
  }
  CudaDownloads(const CudaDownloads&) = delete;
  CudaDownloads& operator=(const CudaDownloads&) = delete;
  ~CudaDownloads()
  {
    cudaStreamSynchronize(stream_.get());
    if (pinned_ != nullptr) cudaHostUnregister(pinned_);
  }

  /// Enqueues the copies after the work that this thread has enqueued so far, and makes its later
  /// work wait for them.
  /// @pre the copies of the call before are complete
  /// @throws DeviceError if CUDA refuses, CaptureError while this thread captures; if the memory is
  /// not pinned, what ComputeStream::synchronize throws
  void start(std::span<const Download> all)
  {
    require_no_capture("a download of ", all.size(), " matrices to the host");
    if (!is_pinned() && !all.empty()) ComputeStream::synchronize();  // see copy_and_wait
    try
    {
      join(ComputeStream::get(), before_, stream_.get());
      for (const auto& [from, to] : all)
        enqueue_copy(from, to, cudaMemcpyDeviceToHost, stream_.get());
      join(stream_.get(), after_, ComputeStream::get());
    }
    catch (const Error&)
    {
      // Later work may change or free what is copied.
      cudaStreamSynchronize(stream_.get());
      throw;
    }
  }

  /// Waits until the copies are complete. Any thread may call it, which gets the device.
  /// @throws DeviceError, CommunicationError for an error of the copies, or of work before them
  void wait() const
  {
    require_cuda(cudaSetDevice(device_), "cudaSetDevice", "device ", device_);
    // A thread that waits in CUDA would keep a core busy.
    while (!is_complete(after_, [] { return "copies to the host"; }))
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }

  /// The stream of the copies.
  [[nodiscard]] cudaStream_t stream() const { return stream_.get(); }
  /// Whether the memory is pinned, so that the host need not wait.
  [[nodiscard]] bool is_pinned() const { return pinned_ != nullptr; }

 private:
  /// Makes the later work of `after` wait for the earlier work of `before`.
  static void join(cudaStream_t before, const CudaEvent& event, cudaStream_t after)
  {
    require_cuda(cudaEventRecord(event.get(), before), "cudaEventRecord", "copies to the host");
    require_cuda(cudaStreamWaitEvent(after, event.get(), 0), "cudaStreamWaitEvent",
                 "copies to the host");
  }

  int device_;
  CudaStream stream_;
  CudaEvent before_;
  CudaEvent after_;
  std::byte* pinned_ = nullptr;  // null if the memory is pageable
};

}  // namespace cubist::CUBIST_ABI::detail
