// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The engine of a GPU, the thread's current device, which a backend sets first. cuBLAS computes
// products, and kernels compute the rest. All work is enqueued on one stream
// (engine/cuda/compute_stream.hpp) in program order; the host waits only in `upload`, `download`
// and `fold`.
//
// Buffers, products and copies compile with any compiler. Maps and folds need nvcc, and their
// functions must be callable on the device (core/host_device.hpp).

#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/cuda/nvtx.hpp"
#include "cubist/engine/attention.hpp"
#include "cubist/engine/cuda/affine.hpp"
#include "cubist/engine/cuda/attention.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/downloads.hpp"
#include "cubist/engine/cuda/graph.hpp"
#include "cubist/engine/cuda/launch.hpp"
#include "cubist/engine/cuda/operations.hpp"
#include "cubist/engine/cuda/transfer.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/epilogue.hpp"
#include "cubist/engine/replay.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/span.hpp"

namespace cubist::CUBIST_ABI
{

/// Computes on the thread's current device. KernelOperations provides its maps and folds.
/// @throws ShapeError from every call, unless the shapes fit
class CudaEngine : public detail::KernelOperations<detail::CudaKernels>
{
 public:
  template <class T>
  using Buffer = CudaBuffer<T>;

  /// Shows a part of a program as a range of a profiler.
  static void begin_span(const SpanName& name)
  {
    detail::Nvtx::push([&] { return name.to_string(); });
  }
  /// Ends the innermost range.
  static void end_span() { detail::Nvtx::pop(); }

  /// Computes C = alpha op(A) op(B) + beta C, where op(A) is (m, k), op(B) (k, n) and C (m, n). C
  /// is not read when beta is 0.
  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    const ProductSize size = product_size(op_a, a.shape(), op_b, b.shape(), c.shape());
    if (c.size() > 0) detail::cublas_gemm(op_a, op_b, size, alpha, a, b, beta, c);
  }

  /// Computes a triangle of C = alpha op(A) op(A)^T + beta C. The triangle is not read when beta is
  /// 0, and the rest of C is not accessed. cuBLAS has no such product of 16-bit elements.
  template <std::floating_point T>
  void syrk(Triangle triangle, Op op, T alpha, MatrixView<const T> a, T beta, MatrixView<T> c) const
  {
    const ProductSize size = syrk_size(op, a.shape(), c.shape());
    if (c.size() > 0) detail::cublas_syrk(triangle, op, size, alpha, a, beta, c);
  }

  /// Computes C[i] = alpha op(A[i]) op(B[i]) + beta C[i], all of one size, in one call.
  /// @throws ShapeError unless the shapes fit, and are the same for all products
  template <Scalar T>
  void gemm_batch(Op op_a, Op op_b, T alpha, std::span<const MatrixView<const T>> a,
                  std::span<const MatrixView<const T>> b, T beta,
                  std::span<const MatrixView<T>> c) const
  {
    if (c.empty()) return;
    const ProductSize size = product_size(op_a, a[0].shape(), op_b, b[0].shape(), c[0].shape());
    if (c[0].size() > 0) detail::cublas_gemm_batch(op_a, op_b, size, alpha, a, b, beta, c);
  }

  /// Computes Z = X W + b in one pass.
  /// @returns false, and computes nothing, if cublasLt does not support it
  template <RealScalar T>
  [[nodiscard]] bool fused_affine(MatrixView<const T> x, MatrixView<const T> w,
                                  MatrixView<const T> b, MatrixView<T> z) const
  {
    return detail::CublasEpilogue<T>::affine(x, w, b, z).run();
  }
  /// Computes Z = X W + b, Y = f(Z) in one pass.
  /// @returns false, and computes nothing, if that is not supported
  template <RealScalar T, class F>
  [[nodiscard]] bool fused_affine(MatrixView<const T> x, MatrixView<const T> w,
                                  MatrixView<const T> b, const F&, MatrixView<T> z,
                                  MatrixView<T> y) const
  {
    // cublasLt's GELU is used for 16-bit elements only. In float its tanh is inaccurate (weights of
    // a GPT-2 were off by 3.8e-4 of 0.58 after training, where the host agrees with the reference),
    // and cublasLt computes it in a separate pass after the product.
    if constexpr (ShortReal<T> && detail::known_function<F> == detail::KnownFunction::gelu_tanh)
      return detail::CublasEpilogue<T>::affine_gelu(x, w, b, z, y).run();
    else
      return false;
  }

  /// Computes attention in one pass.
  /// @returns false, and computes nothing, if that is not supported
  template <ShortReal T>
  [[nodiscard]] bool fused_attention(const AttentionShape& s, MatrixView<const T> q,
                                     MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> o,
                                     MatrixView<float> l) const
  {
    return detail::FusedAttention<T>::forward({s, q, k, v, {}, {}, l.data(), nullptr}, o);
  }
  /// Computes attention's gradients, in one pass for the queries and one for the keys.
  /// @returns false, and computes nothing, if that is not supported
  template <ShortReal T>
  [[nodiscard]] bool
  fused_attention_gradients(const AttentionShape& s, MatrixView<const T> q, MatrixView<const T> k,
                            MatrixView<const T> v, MatrixView<const T> o, MatrixView<float> l,
                            MatrixView<const T> d_o, MatrixView<T> dq, MatrixView<T> dk,
                            MatrixView<T> dv, MatrixView<float> d) const
  {
    return detail::FusedAttention<T>::backward({s, q, k, v, o, d_o, l.data(), d.data()}, dq, dk,
                                               dv);
  }
  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    detail::enqueue_copy(in, out, cudaMemcpyDeviceToDevice, ComputeStream::get());
  }
  /// Copies from the host, which may change its memory as soon as this returns.
  template <Element T>
  void upload(MatrixView<const T> host, MatrixView<T> device) const
  {
    detail::require_no_capture("an upload of ", host.shape(), " elements from the host");
    detail::copy_and_wait(host, device, cudaMemcpyHostToDevice);
  }
  /// Copies to the host, whose memory holds the elements when this returns.
  template <Element T>
  void download(MatrixView<const T> device, MatrixView<T> host) const
  {
    detail::require_no_capture("a download of ", host.shape(), " elements to the host");
    detail::copy_and_wait(device, host, cudaMemcpyDeviceToHost);
  }

  /// Copies to memory of the host, on their own stream.
  using Downloads = detail::CudaDownloads;
  /// Copies matrices to the host while the host and the compute stream go on. Work that is enqueued
  /// later waits for the copies, so it may change the matrices.
  /// @throws DeviceError if CUDA refuses, CaptureError while this thread captures
  void download_beside(std::span<const detail::Download> all, Downloads& downloads) const
  {
    downloads.start(all);
  }

  /// Work that was captured.
  using Graph = CudaGraph;
  /// Captures the work that f enqueues on the compute stream, without executing it.
  /// @throws CaptureError for work that cannot be captured
  [[nodiscard]] Graph capture(const std::function<void()>& f) const { return Graph::capture(f); }
  /// Whether this thread captures.
  [[nodiscard]] bool is_capturing() const { return detail::CudaCapture::is_capturing(); }
  /// Makes each replay of the work being captured call f first.
  /// @pre is_capturing()
  void before_replay(std::function<void()> f) const
  {
    detail::CudaCapture::get().current->before_replay.push_back(std::move(f));
  }
  /// Sets *p = value. The host does not wait: CUDA reads pageable memory before the call returns.
  template <class T>
  void set(T* p, const T& value) const
  {
    detail::require_cuda(
        cudaMemcpyAsync(p, &value, sizeof(T), cudaMemcpyHostToDevice, ComputeStream::get()),
        "cudaMemcpyAsync", "a value of ", sizeof(T), " bytes");
  }

  /// Returns a view of device memory.
  template <class T>
  [[nodiscard]] MatrixView<T> view(MatrixView<T> m) const
  {
    return m;
  }
};

static_assert(Engine<CudaEngine>);
static_assert(detail::Captures<CudaEngine>);
static_assert(detail::DownloadsBeside<CudaEngine>);

template <>
inline constexpr bool in_host_memory<CudaEngine> = false;
/// Unless rows begin at multiples of this, cuBLAS loads elements one by one.
template <>
inline constexpr std::size_t row_alignment<CudaEngine> = 16;

}  // namespace cubist::CUBIST_ABI
