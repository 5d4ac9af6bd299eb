// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Records what a thread captures on its compute stream, and which memory captured work may use.
// Memory that is requested during a capture is allocated immediately, on another stream. It belongs
// to the captured work: when it is freed, during the capture or later, it is kept for the replays.
// Older memory that is freed during a capture is kept for them, too. Captured work becomes invalid
// when memory that was allocated before the capture is freed later.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/cuda/stream.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What a graph needs besides its nodes.
struct CapturedWork
{
  std::vector<std::function<void()>> before_replay;
  std::vector<void*> freed;          // to be freed when the graph is destroyed
  std::vector<const void*> ignored;  // memory that may be freed while the work stays valid
  std::uint64_t oldest = 0;          // the number of the first allocation of the capture
  std::uint64_t newest = 0;          // the number of the last one
  bool valid = true;
  CapturedWork* next = nullptr;  // the next captured work of this thread
};

/// A thread's state. It is trivial because buffers are destroyed after thread_local objects.
struct CudaCapture
{
  CapturedWork* current = nullptr;  // the work being captured, if any
  CapturedWork* first = nullptr;    // the first of all captured work that exists
  std::uint64_t allocations = 0;

  [[nodiscard]] static CudaCapture& get()
  {
    static thread_local CudaCapture capture;
    return capture;
  }
  [[nodiscard]] static bool is_capturing() { return get().current != nullptr; }

  void add(CapturedWork& work)
  {
    work.next = first;
    first = &work;
  }
  void remove(const CapturedWork& work)
  {
    for (CapturedWork** p = &first; *p != nullptr; p = &(*p)->next)
      if (*p == &work) return void(*p = work.next);
  }
};

/// Checks that this thread does not capture.
/// @throws CaptureError while it captures
template <class... What>
void require_no_capture(const What&... what)
{
  require<CaptureError>(
      !CudaCapture::is_capturing(), "got ", what...,
      " in a step that is captured, whose work has not run yet, so the host and the device cannot "
      "exchange data; do it before or after the step, or run the step without capturing");
}

struct DeviceMemory
{
  void* data = nullptr;
  std::uint64_t number = 0;  // of the allocation, counted in its thread
};

/// Allocates memory in the order of a stream.
/// @pre bytes > 0
/// @throws DeviceError if the device is out of memory
[[nodiscard]] inline DeviceMemory allocate_memory(std::size_t bytes, cudaStream_t stream)
{
  auto& capture = CudaCapture::get();
  DeviceMemory memory{nullptr, ++capture.allocations};
  const auto allocate = [&](cudaStream_t on) {
    require_cuda(cudaMallocAsync(&memory.data, bytes, on), "cudaMallocAsync", "a buffer of ", bytes,
                 " bytes");
  };
  if (capture.current == nullptr)
    allocate(stream);
  else
  {
    const CudaStream side;
    allocate(side.get());
    require_cuda(cudaStreamSynchronize(side.get()), "cudaStreamSynchronize", "a buffer of ", bytes,
                 " bytes");
  }
  return memory;
}

/// Invalidates captured work that may use this memory, which is about to be freed, unless the
/// memory was allocated in the work's capture.
/// @returns the work whose capture allocated it, or null
inline CapturedWork* invalidate_captured_work(const DeviceMemory& memory) noexcept
{
  CapturedWork* owner = nullptr;
  for (CapturedWork* work = CudaCapture::get().first; work != nullptr; work = work->next)
    if (memory.number <= work->newest && memory.number >= work->oldest)
      owner = work;
    else if (memory.number <= work->newest && std::find(work->ignored.begin(), work->ignored.end(),
                                                        memory.data) == work->ignored.end())
      work->valid = false;
  return owner;
}

/// Frees memory, or gives it to the captured work that goes on to use it in each replay.
inline void free_memory(const DeviceMemory& memory, cudaStream_t stream) noexcept
{
  CapturedWork* owner = invalidate_captured_work(memory);
  if (auto* const current = CudaCapture::get().current) owner = current;
  if (owner != nullptr)
    owner->freed.push_back(memory.data);
  else
    cudaFreeAsync(memory.data, stream);
}

}  // namespace cubist::CUBIST_ABI::detail
