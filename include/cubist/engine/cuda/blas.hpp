// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// cuBLAS, for row-major matrices. It reads them as the transposes of column-major ones:
//
//   C = op(A) op(B) by rows is C^T = op(B)^T op(A)^T by columns
//
// Products have the precision of their scalars, unless a program allows TF32. Those of 16 bits are
// summed in float, and rounded once.

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include <cublas_v2.h>

#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/engine.hpp"

namespace cubist
{

/// What products may make of their operands' precision; set before ranks are launched.
struct CudaPrecision
{
  /// Rounds floats to TF32, of 10 bits behind the point, so that tensor cores multiply them.
  static inline bool tf32 = false;
};

}  // namespace cubist

namespace cubist::detail
{

/// @throws DeviceError unless the call succeeded
template <class... What>
void require_cublas(cublasStatus_t status, const char* call, const What&... what)
{
  if (status == CUBLAS_STATUS_SUCCESS) return;
  require<DeviceError>(false, call, " failed (", cublasGetStatusString(status), ") for ", what...,
                       ", so its result is not there; look for an error of earlier work on the "
                       "device, and whether it has memory left");
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
  int device = 0;
  require_cuda(cudaGetDevice(&device), "cudaGetDevice", "a product");
  auto& handle = handles[device];
  if (!handle)
  {
    cublasHandle_t made = nullptr;
    require_cublas(cublasCreate(&made), "cublasCreate", "device ", device);
    handle.reset(made);
    require_cublas(cublasSetStream(made, ComputeStream::get()), "cublasSetStream", "device ",
                   device);
    constexpr auto mode = static_cast<cublasMath_t>(
        CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
    require_cublas(cublasSetMathMode(made, mode), "cublasSetMathMode", "device ", device);
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

/// In what a product of T is added up.
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

/// C = alpha op(A) op(B) + beta C
/// @pre C has elements
template <Scalar T>
void cublas_gemm(Op op_a, Op op_b, ProductSize size, T alpha, MatrixView<const T> a,
                 MatrixView<const T> b, T beta, MatrixView<T> c)
{
  constexpr auto type = cublas_type<T>();
  const Accumulator<T> by = alpha;
  const Accumulator<T> kept = beta;
  const auto n = [](std::size_t x) { return static_cast<std::int64_t>(x); };
  const auto ld = [&](auto m) { return n(m.ld() > 0 ? m.ld() : 1); };
  require_cublas(
      cublasGemmEx_64(cublas(), cublas_op(op_b), cublas_op(op_a), n(size.n), n(size.m), n(size.k),
                      &by, b.data(), type, ld(b), a.data(), type, ld(a), &kept, c.data(), type,
                      ld(c), cublas_compute<T>(), CUBLAS_GEMM_DEFAULT),
      "cublasGemmEx", "a product of ", Shape{size.m, size.k}, " times ", Shape{size.k, size.n});
}

}  // namespace cubist::detail
