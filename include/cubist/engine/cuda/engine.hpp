// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The engine of a GPU: the current device of the thread, which a backend sets first. cuBLAS
// computes products, kernels the rest. All work is enqueued on one stream
// (engine/cuda/compute_stream.hpp) in program order; the host waits only in `upload`, `download`
// and `fold`.
//
// Buffers, products and copies compile with any compiler; maps and folds need nvcc, and their
// functions must be callable on the device (core/host_device.hpp).

#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>

#include <cuda_runtime_api.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/device/check.hpp"
#include "cubist/device/nvtx.hpp"
#include "cubist/engine/affine.hpp"
#include "cubist/engine/cuda/affine.hpp"
#include "cubist/engine/cuda/blas.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/folds.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/graph.hpp"
#include "cubist/engine/cuda/groups.hpp"
#include "cubist/engine/cuda/maps.hpp"
#include "cubist/engine/engine.hpp"
#include "cubist/engine/matrix_groups.hpp"
#include "cubist/engine/replay.hpp"
#include "cubist/engine/shapes.hpp"
#include "cubist/engine/span.hpp"

namespace cubist
{

/// @throws ShapeError from every call, unless the shapes fit
class CudaEngine
{
 public:
  template <class T>
  using Buffer = CudaBuffer<T>;

  /// Named parts of a program are ranges of a profiler.
  static void begin_span(const SpanName& name)
  {
    detail::Nvtx::push([&] { return name.to_string(); });
  }
  static void end_span() { detail::Nvtx::pop(); }

  /// C = alpha op(A) op(B) + beta C, where op(A) is (m, k), op(B) (k, n) and C (m, n); C is not
  /// read when beta is 0.
  template <Scalar T>
  void gemm(Op op_a, Op op_b, T alpha, MatrixView<const T> a, MatrixView<const T> b, T beta,
            MatrixView<T> c) const
  {
    const ProductSize size = product_size(op_a, a.shape(), op_b, b.shape(), c.shape());
    if (c.size() > 0) detail::cublas_gemm(op_a, op_b, size, alpha, a, b, beta, c);
  }

  /// C[i] = alpha op(A[i]) op(B[i]) + beta C[i], all of one size, in one call
  /// @throws ShapeError unless the shapes fit, and are those of all
  template <Scalar T>
  void gemm_batch(Op op_a, Op op_b, T alpha, std::span<const MatrixView<const T>> a,
                  std::span<const MatrixView<const T>> b, T beta,
                  std::span<const MatrixView<T>> c) const
  {
    if (c.empty()) return;
    const ProductSize size = product_size(op_a, a[0].shape(), op_b, b[0].shape(), c[0].shape());
    if (c[0].size() > 0) detail::cublas_gemm_batch(op_a, op_b, size, alpha, a, b, beta, c);
  }

  /// Z = X W + b in one pass; false, and nothing is computed, if cublasLt does not support it.
  template <RealScalar T>
  [[nodiscard]] bool fused_affine(MatrixView<const T> x, MatrixView<const T> w,
                                  MatrixView<const T> b, MatrixView<T> z) const
  {
    return detail::CublasAffine<T>{x, w, b, z, {}}.run();
  }
  /// Z = X W + b, Y = f(Z) in one pass; false, and nothing is computed, if it is not supported.
  template <RealScalar T, class F>
  [[nodiscard]] bool fused_affine(MatrixView<const T> x, MatrixView<const T> w,
                                  MatrixView<const T> b, const F&, MatrixView<T> z,
                                  MatrixView<T> y) const
  {
    // The accuracy of cublasLt's tanh in double is not documented.
    if constexpr (detail::known_function<F> == detail::KnownFunction::gelu_tanh &&
                  !std::same_as<T, double>)
      return detail::CublasAffine<T>{x, w, b, z, y}.run();
    else
      return false;
  }

  template <Element T>
  void copy(MatrixView<const T> in, MatrixView<T> out) const
  {
    transfer(in, out, cudaMemcpyDeviceToDevice);
  }
  /// The host may change its memory when this returns.
  template <Element T>
  void upload(MatrixView<const T> host, MatrixView<T> device) const
  {
    detail::require_no_capture("an upload of ", host.shape(), " elements from the host");
    transfer(host, device, cudaMemcpyHostToDevice);
    ComputeStream::synchronize();
  }
  /// The host's memory has the elements when this returns.
  template <Element T>
  void download(MatrixView<const T> device, MatrixView<T> host) const
  {
    detail::require_no_capture("a download of ", host.shape(), " elements to the host");
    transfer(device, host, cudaMemcpyDeviceToHost);
    ComputeStream::synchronize();
  }

  template <Element T>
  void fill(MatrixView<T> out, T value) const
  {
    for_each(detail::FillWith<T>{value}, out);
  }

  /// f(m(i, j), …) for all i and j; f writes to what is not const.
  template <class F, class First, class... T>
  void for_each(F f, MatrixView<First> first, MatrixView<T>... m) const
  {
    (require_shape(m.shape(), first.shape()), ...);
    if (first.size() == 0) return;
    // Contiguous matrices are mapped as one row.
    const Shape row{1, first.size()};
    const detail::IgnoreIndices<F> g{f};
    if (first.contiguous() && (m.contiguous() && ...))
      detail::launch_elements(row, g, MatrixView<First>{first.data(), row},
                              MatrixView<T>{m.data(), row}...);
    else
      detail::launch_elements(first.shape(), g, first, m...);
  }

  /// out(i, j) = f(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    for_each(detail::StoreResult<F>{f}, out, MatrixView<const In>{in}...);
  }

  /// The same, and sums(0, j) = sum over i of out(i, j), for sums of one row.
  template <class T, class F, class... In>
  void map_sums(MatrixView<T> out, MatrixView<T> sums, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    require_shape(sums.shape(), Shape{1, out.cols()});
    if (out.cols() > 0)
      detail::launch_column_sums(out.shape(), sums.data(), detail::StoreAndSum<F>{f}, out,
                                 MatrixView<const In>{in}...);
  }

  /// out(i, j) = f(i, j, in(i, j), …)
  template <class T, class F, class... In>
  void map_indexed(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() > 0)
      detail::launch_elements(out.shape(), detail::StoreIndexedResult<F>{f}, out,
                              MatrixView<const In>{in}...);
  }

  /// out(i, j) = f(i)(in(i, j), …); `out` may be one of the inputs.
  template <class T, class F, class... In>
  void map_rows(MatrixView<T> out, F f, MatrixView<In>... in) const
  {
    (require_shape(in.shape(), out.shape()), ...);
    if (out.size() > 0)
      detail::launch_elements(out.shape(), detail::StoreRowResult<F>{f}, out,
                              MatrixView<const In>{in}...);
  }

  /// out(0, j) = sum over i of in(i, j), for out of one row.
  template <class T>
  void column_sums(MatrixView<const T> in, MatrixView<T> out) const
  {
    require_shape(out.shape(), Shape{1, in.cols()});
    if (in.cols() > 0)
      detail::launch_column_sums(in.shape(), out.data(), detail::ElementValue{}, in);
  }

  /// out(targets[l], :) = the sum of the rows of `in` in list l; with `adds`, of what is there and
  /// these.
  template <Scalar T>
  void sum_rows(MatrixView<const T> in, const RowLists& lists, MatrixView<T> out, bool adds) const
  {
    require_shape(in.shape(), Shape{in.rows(), out.cols()});
    const Shape sums{lists.count, out.cols()};
    if (sums.size() > 0)
      detail::launch_elements(sums, detail::StoreSumOfRows<T>{in, lists, out, adds});
  }

  /// out(i, 0) = the fold of f(i, j, in(i, j), …) over all columns j, starting with init.
  template <class T, class Combine, class F, class First, class... In>
  void row_fold(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
                MatrixView<In>... in) const
  {
    require_shape(out.shape(), Shape{first.rows(), 1});
    (require_shape(in.shape(), first.shape()), ...);
    if (first.rows() > 0)
      detail::launch_row_fold(first.shape(), out, detail::DeviceValue<T>{init}, combine, f,
                              MatrixView<const First>{first}, MatrixView<const In>{in}...);
  }

  /// The fold of f(i, j, in(i, j), …) over all rows and columns, starting with init.
  template <class T, class Combine, class F, class First, class... In>
  [[nodiscard]] T fold(T init, Combine combine, F f, MatrixView<First> first,
                       MatrixView<In>... in) const
  {
    (require_shape(in.shape(), first.shape()), ...);
    if (first.size() == 0) return init;
    return static_cast<T>(detail::launch_fold(first.shape(), detail::DeviceValue<T>{init}, combine,
                                              f, MatrixView<const First>{first},
                                              MatrixView<const In>{in}...));
  }

  /// out(0, 0) = the same, without waiting for it.
  template <RealScalar T, class Combine, class F, class First, class... In>
  void fold_to(MatrixView<T> out, T init, Combine combine, F f, MatrixView<First> first,
               MatrixView<In>... in) const
  {
    static_assert(std::same_as<T, detail::DeviceValue<T>>);
    require_shape(out.shape(), Shape{1, 1});
    (require_shape(in.shape(), first.shape()), ...);
    if (first.size() == 0) return fill(out, init);
    detail::launch_fold_to(out.data(), first.shape(), init, combine, f,
                           MatrixView<const First>{first}, MatrixView<const In>{in}...);
  }

  /// f(m(i, j), …) for all groups of matrices, in one launch; f and groups are in device memory.
  template <class F, class... T>
  void for_each_in_all(const F* f, const MatrixGroup* groups, std::size_t count,
                       MatrixTypes<T...> types) const
  {
    detail::launch_groups(f, groups, count, types);
  }

  using Graph = CudaGraph;
  /// The work that f enqueues on the compute stream; it is not executed.
  /// @throws CaptureError
  [[nodiscard]] Graph capture(const std::function<void()>& f) const { return Graph::capture(f); }
  [[nodiscard]] bool is_capturing() const { return detail::CudaCapture::is_capturing(); }
  /// @pre is_capturing()
  void before_replay(std::function<void()> f) const
  {
    detail::CudaCapture::get().current->before_replay.push_back(std::move(f));
  }
  /// *p = value. The host does not wait: CUDA reads pageable memory before the call returns.
  template <class T>
  void set(T* p, const T& value) const
  {
    detail::require_cuda(
        cudaMemcpyAsync(p, &value, sizeof(T), cudaMemcpyHostToDevice, ComputeStream::get()),
        "cudaMemcpyAsync", "a value of ", sizeof(T), " bytes");
  }

  /// A view of device memory.
  template <class T>
  [[nodiscard]] MatrixView<T> view(MatrixView<T> m) const
  {
    return m;
  }

 private:
  template <class T>
  static void transfer(MatrixView<const T> from, MatrixView<T> to, cudaMemcpyKind kind)
  {
    require_shape(from.shape(), to.shape());
    const bool same = from.data() == to.data() && from.ld() == to.ld();
    if (to.size() == 0 || same) return;
    if (from.ld() < from.cols() && from.rows() > 1)
      for (std::size_t i = 0; i < to.rows(); ++i)
        transfer(from.block(i, 0, {1, to.cols()}), to.block(i, 0, {1, to.cols()}), kind);
    else
    {
      const auto stream = ComputeStream::get();
      const auto code =
          from.contiguous() && to.contiguous()
              ? cudaMemcpyAsync(to.data(), from.data(), to.size() * sizeof(T), kind, stream)
              : cudaMemcpy2DAsync(to.data(), to.ld() * sizeof(T), from.data(),
                                  from.ld() * sizeof(T), to.cols() * sizeof(T), to.rows(), kind,
                                  stream);
      detail::require_cuda(code, "cudaMemcpyAsync", "a copy of ", to.shape(), " elements");
    }
  }
};

static_assert(Engine<CudaEngine>);
static_assert(detail::Captures<CudaEngine>);

template <>
inline constexpr bool in_host_memory<CudaEngine> = false;

}  // namespace cubist
