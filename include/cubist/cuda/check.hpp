// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Turns CUDA's return codes into errors.

#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Checks the return code of a call.
/// @param what the purpose of the call: "a buffer of 64 bytes"
/// @throws E unless the call succeeded
template <class E = DeviceError, class... What>
void require_cuda(cudaError_t code, const char* call, const What&... what)
{
  if (code == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());  // otherwise a later call would report it again
  const char* const advice = code == cudaErrorMemoryAllocation
                                 ? "use more devices, or smaller matrices"
                                 : "look for an error in earlier work on the device, and at its "
                                   "state with nvidia-smi";
  require<E>(false, call, " failed (", cudaGetErrorName(code), ": ", cudaGetErrorString(code),
             ") for ", what..., ", so the device did not do what was asked; ", advice);
}

}  // namespace cubist::CUBIST_ABI::detail
