// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Calls cuBLAS for row-major matrices, which it reads as transposes of column-major ones:
//
//   row-major C = op(A) op(B) is column-major C^T = op(B)^T op(A)^T
//
// Products have the precision of their scalars, unless the program allows TF32. Products of 16-bit
// scalars are accumulated in float and rounded once.

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include "cubist/core/error.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist::CUBIST_ABI
{

/// The precision of products. Set it before ranks are launched.
struct CudaPrecision
{
  /// Whether float operands are rounded to TF32 (10 bits of mantissa), which tensor cores multiply.
  static inline bool tf32 = false;
};

}  // namespace cubist::CUBIST_ABI

namespace cubist::CUBIST_ABI::detail
{

/// Checks the status of a call.
/// @throws DeviceError unless the call succeeded
template <class... What>
void require_cublas(cublasStatus_t status, const char* call, const What&... what)
{
  if (status == CUBLAS_STATUS_SUCCESS) return;
  require<DeviceError>(false, call, " failed (", cublasGetStatusString(status), ") for ", what...,
                       ", so there is no result; look for an error in earlier work on the "
                       "device, and check that it has memory left");
}

struct DestroyCublas
{
  void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
};

/// This thread's handle for its current device, on its compute stream.
[[nodiscard]] inline cublasHandle_t cublas()
{
  using Handle = std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, DestroyCublas>;
  static thread_local std::map<int, Handle> handles;
  const int device = current_device();
  auto& handle = handles[device];
  if (!handle)
  {
    cublasHandle_t created = nullptr;
    require_cublas(cublasCreate(&created), "cublasCreate", "device ", device);
    handle.reset(created);
    require_cublas(cublasSetStream(created, ComputeStream::get()), "cublasSetStream", "device ",
                   device);
    constexpr auto mode = static_cast<cublasMath_t>(
        CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    require_cublas(cublasSetMathMode(created, mode), "cublasSetMathMode", "device ", device);
  }
  return handle.get();
}

template <Scalar T>
[[nodiscard]] constexpr cudaDataType cublas_type()
{
  if constexpr (std::same_as<T, bfloat16>)
    return CUDA_R_16BF;
  else if constexpr (std::same_as<T, half>)
    return CUDA_R_16F;
  else if constexpr (std::same_as<Real<T>, float>)
    return ComplexScalar<T> ? CUDA_C_32F : CUDA_R_32F;
  else
    return ComplexScalar<T> ? CUDA_C_64F : CUDA_R_64F;
}

/// The type in which products of T are accumulated.
template <Scalar T>
[[nodiscard]] cublasComputeType_t cublas_compute()
{
  if (std::same_as<Real<T>, double>) return CUBLAS_COMPUTE_64F;
  if (std::same_as<Real<T>, float> && CudaPrecision::tf32) return CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_COMPUTE_32F;
}

[[nodiscard]] constexpr cublasOperation_t cublas_op(Op op)
{
  if (op == Op::none) return CUBLAS_OP_N;
  return op == Op::adjoint ? CUBLAS_OP_C : CUBLAS_OP_T;
}

/// Computes C = alpha op(A) op(B) + beta C.
/// @pre C has elements
template <Scalar T>
void cublas_gemm(Op op_a, Op op_b, ProductSize size, T alpha, MatrixView<const T> a,
                 MatrixView<const T> b, T beta, MatrixView<T> c)
{
  constexpr auto type = cublas_type<T>();
  const Accumulator<T> a_factor = alpha;
  const Accumulator<T> c_factor = beta;
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const auto ld = [&](auto m) { return n(m.ld() > 0 ? m.ld() : 1); };
  require_cublas(
      cublasGemmEx_64(cublas(), cublas_op(op_b), cublas_op(op_a), n(size.n), n(size.m), n(size.k),
                      &a_factor, b.data(), type, ld(b), a.data(), type, ld(a), &c_factor, c.data(),
                      type, ld(c), cublas_compute<T>(), CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx", "a product of ", Shape{size.m, size.k}, " times ", Shape{size.k, size.n});
}

/// Computes a triangle of C = alpha op(A) op(A)^T + beta C, in the precision of T.
/// @pre C has elements
template <std::floating_point T>
void cublas_syrk(Triangle triangle, Op op, ProductSize size, T alpha, MatrixView<const T> a, T beta,
                 MatrixView<T> c)
{
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const auto ld = [&](auto m) { return n(m.ld() > 0 ? m.ld() : 1); };
  const auto call = [&](auto syrk) {
    // The lower triangle of a row-major matrix is the upper one of a column-major matrix.
    return syrk(cublas(),
                triangle == Triangle::lower ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                op == Op::none ? CUBLAS_OP_T : CUBLAS_OP_N, n(size.m), n(size.k), &alpha, a.data(),
                ld(a), &beta, c.data(), ld(c));
  };
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  if constexpr (std::same_as<T, float>)
    status = call(cublasSsyrk_64);
  else
    status = call(cublasDsyrk_64);
  require_cublas(status, "cublas?syrk", "a product of ", Shape{size.m, size.k},
                 " with its transpose");
}

/// Computes C[i] = alpha op(A[i]) op(B[i]) + beta C[i] for all i.
/// @pre there are as many A as B and C, and at least one; C has elements
/// @throws ShapeError unless all A, all B and all C have the same shape and leading dimension
template <Scalar T>
void cublas_gemm_batch(Op op_a, Op op_b, ProductSize size, T alpha,
                       std::span<const MatrixView<const T>> a,
                       std::span<const MatrixView<const T>> b, T beta,
                       std::span<const MatrixView<T>> c)
{
  // The pointers to all B, which are cuBLAS's A, then to all A, then to all C.
  const auto addresses = std::make_shared<std::vector<const void*>>();
  auto& pointers = *addresses;
  pointers.reserve(3 * c.size());
  const auto list = [&](auto matrices) {
    for (const auto& m : matrices)
    {
      require<ShapeError>(m.shape() == matrices[0].shape() && m.ld() == matrices[0].ld(),
                          "got a batch of products with matrices of ", matrices[0].shape(), " and ",
                          m.shape(),
                          ", but one call computes products of equal shape and leading dimension; "
                          "multiply them one by one");
      pointers.push_back(m.data());
    }
  };
  list(b), list(a), list(c);
  CudaBuffer<const void*> on_device(pointers.size());
  require_cuda(cudaMemcpyAsync(on_device.data(), pointers.data(), pointers.size() * sizeof(void*),
                               cudaMemcpyHostToDevice, ComputeStream::get()),
               "cudaMemcpyAsync", "the addresses of ", c.size(), " products");
  if (CudaCapture::is_capturing())  // each replay reads them
    CudaCapture::get().current->before_replay.push_back([addresses] {});

  constexpr auto type = cublas_type<T>();
  const Accumulator<T> a_factor = alpha;
  const Accumulator<T> c_factor = beta;
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const auto ld = [&](const auto& m) { return n(m.ld() > 0 ? m.ld() : 1); };
  const void* const* const bs = on_device.data();
  const void* const* const as = bs + c.size();
  auto* const cs = const_cast<void* const*>(as + c.size());
  require_cublas(cublasGemmBatchedEx_64(cublas(), cublas_op(op_b), cublas_op(op_a), n(size.n),
                                        n(size.m), n(size.k), &a_factor, bs, type, ld(b[0]), as,
                                        type, ld(a[0]), &c_factor, cs, type, ld(c[0]), n(c.size()),
                                        cublas_compute<T>(), CUBLAS_GEMM_DEFAULT),
                 "cublasGemmBatchedEx", c.size(), " products of ", Shape{size.m, size.k}, " times ",
                 Shape{size.k, size.n});
}

}  // namespace cubist::CUBIST_ABI::detail
