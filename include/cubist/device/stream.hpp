// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// CUDA's streams and events, owned, and its return codes as errors. A call that CUDA has not
// finished yet (cudaErrorNotReady) is an answer, not an error.

#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// @param doing gives what the call was for, as "all_reduce of 4 double by sum on rank 0 of 2"
/// @throws CommunicationError
template <class Doing>
void cuda_check(cudaError_t code, const char* call, Doing doing)
{
  if (code == cudaSuccess) return;
  require<CommunicationError>(false, call, " failed (", cudaGetErrorName(code), ": ",
                              cudaGetErrorString(code), ") for ", doing(),
                              ", so what was asked of the device is not done; look for an error of "
                              "earlier work on it, and at its state with nvidia-smi");
}

/// Work in the order in which it was enqueued; it does not wait for the default stream.
class CudaStream
{
 public:
  CudaStream()
  {
    cuda_check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags", [] { return "a stream"; });
  }
  CudaStream(CudaStream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  CudaStream& operator=(CudaStream&& other) noexcept
  {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~CudaStream()
  {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  [[nodiscard]] cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream's work.
class CudaEvent
{
 public:
  CudaEvent()
  {
    cuda_check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming),
               "cudaEventCreateWithFlags", [] { return "an event"; });
  }
  CudaEvent(CudaEvent&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  CudaEvent& operator=(CudaEvent&& other) noexcept
  {
    std::swap(event_, other.event_);
    return *this;
  }
  ~CudaEvent()
  {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  [[nodiscard]] cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Whether the work before the event is complete.
template <class Doing>
[[nodiscard]] bool is_complete(const CudaEvent& event, Doing doing)
{
  const cudaError_t code = cudaEventQuery(event.get());
  if (code != cudaErrorNotReady) cuda_check(code, "cudaEventQuery", doing);
  return code == cudaSuccess;
}

}  // namespace cubist::detail
