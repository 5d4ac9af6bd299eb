// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Owns CUDA streams and events, and turns CUDA's return codes into CommunicationErrors.

#include <memory>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"
#include "cubist/cuda/check.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Checks the return code of a call.
/// @param doing returns the purpose of the call: "all_reduce of 4 double by sum on rank 0 of 2"
/// @throws CommunicationError unless the call succeeded
template <class Doing>
void cuda_check(cudaError_t code, const char* call, Doing doing)
{
  if (code != cudaSuccess) require_cuda<CommunicationError>(code, call, doing());
}

struct CudaDestroy
{
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};

/// A stream that does not synchronize with the default stream.
class CudaStream
{
 public:
  CudaStream()
  {
    cudaStream_t stream = nullptr;
    cuda_check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags", [] { return "a stream"; });
    stream_.reset(stream);
  }
  [[nodiscard]] cudaStream_t get() const { return stream_.get(); }

 private:
  std::unique_ptr<std::remove_pointer_t<cudaStream_t>, CudaDestroy> stream_;
};

/// An event without timing.
class CudaEvent
{
 public:
  CudaEvent()
  {
    cudaEvent_t event = nullptr;
    cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags",
               [] { return "an event"; });
    event_.reset(event);
  }
  [[nodiscard]] cudaEvent_t get() const { return event_.get(); }

 private:
  std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, CudaDestroy> event_;
};

/// Whether the work before the event is complete; cudaErrorNotReady does not count as an error.
template <class Doing>
[[nodiscard]] bool is_complete(const CudaEvent& event, Doing doing)
{
  const cudaError_t code = cudaEventQuery(event.get());
  if (code != cudaErrorNotReady) cuda_check(code, "cudaEventQuery", doing);
  return code == cudaSuccess;
}

}  // namespace cubist::CUBIST_ABI::detail
