// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The baseline without cubist: cublasGemmEx on plain buffers, with a separate handle. cuBLAS takes
// the buffers as column-major, so row-major C = A B is C^T = B^T A^T.

#include <cublas_v2.h>

#include "gpu/device_site.hpp"

namespace bench
{

class PlainCublas
{
 public:
  PlainCublas()
  {
    cubist::detail::require_cublas(cublasCreate(&handle_), "cublasCreate", "a comparison");
    cubist::detail::require_cublas(cublasSetStream(handle_, cubist::ComputeStream::get()),
                                   "cublasSetStream", "a comparison");
  }
  PlainCublas(const PlainCublas&) = delete;
  PlainCublas& operator=(const PlainCublas&) = delete;
  ~PlainCublas() { cublasDestroy(handle_); }

  template <class T>
  void multiply(cubist::Op op_a, cubist::Op op_b, cubist::MatrixView<const T> a,
                cubist::MatrixView<const T> b, cubist::MatrixView<T> c) const
  {
    // A new scalar needs its cuBLAS type and its compute type here.
    constexpr bool wide = std::same_as<T, double>;
    constexpr bool single = std::same_as<T, float>;
    static_assert(wide || single || std::same_as<T, cubist::bfloat16>);
    const cubist::Accumulator<T> one{1};
    const cubist::Accumulator<T> zero{};
    const auto n = [](std::size_t x) { return static_cast<int>(x); };
    const auto op = [](cubist::Op o) { return o == cubist::Op::none ? CUBLAS_OP_N : CUBLAS_OP_T; };
    constexpr auto type = wide ? CUDA_R_64F : single ? CUDA_R_32F : CUDA_R_16BF;
    const auto k = op_a == cubist::Op::none ? a.cols() : a.rows();
    cubist::detail::require_cublas(
        cublasGemmEx(handle_, op(op_b), op(op_a), n(c.cols()), n(c.rows()), n(k), &one, b.data(),
                     type, n(b.ld()), a.data(), type, n(a.ld()), &zero, c.data(), type, n(c.ld()),
                     wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx", "a comparison");
  }

 private:
  cublasHandle_t handle_ = nullptr;
};

template <>
struct Site<cubist::CudaEngine> : DeviceSite<cubist::CudaEngine>
{
  template <class T>
  static void multiply(const cubist::CudaEngine&, cubist::Op op_a, cubist::Op op_b,
                       cubist::MatrixView<const T> a, cubist::MatrixView<const T> b,
                       cubist::MatrixView<T> c)
  {
    static thread_local const PlainCublas blas;  // on the rank's device
    blas.multiply(op_a, op_b, a, b, c);
  }
};

}  // namespace bench
