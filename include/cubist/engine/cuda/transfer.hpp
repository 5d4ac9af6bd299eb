// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Copies matrices within a device's memory, and between it and the host's.
// Source: NVIDIA, CUDA runtime API, "API synchronization behavior".

#include <concepts>
#include <cstddef>

#include <cuda_runtime_api.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/shapes.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Enqueues a copy on a stream. Rows of `from` that share their memory (ld() < cols()) are copied
/// one by one. A matrix is not copied to itself.
/// @throws ShapeError unless both matrices have the same shape, DeviceError if CUDA refuses
template <class T>
void enqueue_copy(MatrixView<const T> from, MatrixView<T> to, cudaMemcpyKind kind,
                  cudaStream_t stream)
{
  require_shape(from.shape(), to.shape());
  const bool same = from.data() == to.data() && from.ld() == to.ld();
  if (to.size() == 0 || same) return;
  if (from.ld() < from.cols() && from.rows() > 1)
    for (std::size_t i = 0; i < to.rows(); ++i)
      enqueue_copy(from.block(i, 0, {1, to.cols()}), to.block(i, 0, {1, to.cols()}), kind, stream);
  else
  {
    const auto code =
        from.contiguous() && to.contiguous()
            ? cudaMemcpyAsync(to.data(), from.data(), to.size() * sizeof(T), kind, stream)
            : cudaMemcpy2DAsync(to.data(), to.ld() * sizeof(T), from.data(), from.ld() * sizeof(T),
                                to.cols() * sizeof(T), to.rows(), kind, stream);
    require_cuda(code, "cudaMemcpyAsync", "a copy of ", to.shape(),
                 std::same_as<T, std::byte> ? " bytes" : " elements");
  }
}

/// Copies between the device and any memory of the host, and waits until the copy is complete.
/// @throws ShapeError, DeviceError like enqueue_copy, and what ComputeStream::synchronize throws
template <class T>
void copy_and_wait(MatrixView<const T> from, MatrixView<T> to, cudaMemcpyKind kind)
{
  // A copy of pageable memory may wait for earlier work before it returns. That work may need a
  // rank that has failed, which only synchronize() notices, so it is complete before the copy.
  ComputeStream::synchronize();
  enqueue_copy(from, to, kind, ComputeStream::get());
  ComputeStream::synchronize();
}

}  // namespace cubist::CUBIST_ABI::detail
