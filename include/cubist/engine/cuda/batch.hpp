// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Products of one size, each of matrices anywhere on the device, in one call of cuBLAS.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::detail
{

/// C[i] = alpha op(A[i]) op(B[i]) + beta C[i]
/// @pre as many of each, at least one; C has elements
/// @throws ShapeError unless all are stored alike
template <Scalar T>
void cublas_gemm_batch(Op op_a, Op op_b, ProductSize size, T alpha,
                       std::span<const MatrixView<const T>> a,
                       std::span<const MatrixView<const T>> b, T beta,
                       std::span<const MatrixView<T>> c)
{
  // First all of B, as cuBLAS's A, then all of A, then all of C.
  std::vector<const void*> places;
  places.reserve(3 * c.size());
  const auto list = [&](auto matrices) {
    for (const auto& m : matrices)
    {
      require<ShapeError>(m.shape() == matrices[0].shape() && m.ld() == matrices[0].ld(),
                          "got a batch of products with matrices of ", matrices[0].shape(), " and ",
                          m.shape(),
                          ", but one call makes products that are alike; multiply them "
                          "one by one");
      places.push_back(m.data());
    }
  };
  list(b), list(a), list(c);
  CudaBuffer<const void*> on_device(places.size());
  require_cuda(cudaMemcpyAsync(on_device.data(), places.data(), places.size() * sizeof(void*),
                               cudaMemcpyHostToDevice, ComputeStream::get()),
               "cudaMemcpyAsync", "the addresses of ", c.size(), " products");

  constexpr auto type = cublas_type<T>();
  const Accumulator<T> by = alpha;
  const Accumulator<T> kept = beta;
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const auto ld = [&](const auto& m) { return n(m.ld() > 0 ? m.ld() : 1); };
  const void* const* const bs = on_device.data();
  const void* const* const as = bs + c.size();
  // cuBLAS writes to these.
  auto* const cs = const_cast<void* const*>(as + c.size());
  require_cublas(cublasGemmBatchedEx_64(cublas(), cublas_op(op_b), cublas_op(op_a), n(size.n),
                                        n(size.m), n(size.k), &by, bs, type, ld(b[0]), as, type,
                                        ld(a[0]), &kept, cs, type, ld(c[0]), n(c.size()),
                                        cublas_compute<T>(), CUBLAS_GEMM_DEFAULT),
                 "cublasGemmBatchedEx", c.size(), " products of ", Shape{size.m, size.k}, " times ",
                 Shape{size.k, size.n});
}

}  // namespace cubist::detail
