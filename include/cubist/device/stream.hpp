// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Owners of CUDA streams and events, and return codes of CUDA as CommunicationError.

#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// @param doing returns the purpose of the call: "all_reduce of 4 double by sum on rank 0 of 2"
/// @throws CommunicationError unless the call succeeded
template <class Doing>
void cuda_check(cudaError_t code, const char* call, Doing doing)
{
  if (code == cudaSuccess) return;
  require<CommunicationError>(false, call, " failed (", cudaGetErrorName(code), ": ",
                              cudaGetErrorString(code), ") for ", doing(),
                              ", so what was asked of the device is not done; look for an error of "
                              "earlier work on it, and at its state with nvidia-smi");
}

/// A stream that does not synchronize with the default stream.
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

/// An event without timing.
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

/// Whether the work before the event is complete; cudaErrorNotReady is no error here.
template <class Doing>
[[nodiscard]] bool is_complete(const CudaEvent& event, Doing doing)
{
  const cudaError_t code = cudaEventQuery(event.get());
  if (code != cudaErrorNotReady) cuda_check(code, "cudaEventQuery", doing);
  return code == cudaSuccess;
}

}  // namespace cubist::detail
