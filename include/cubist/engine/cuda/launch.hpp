// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How kernels run on a device, and the memory for parts of their results. Only nvcc compiles
// kernels; with another compiler, a call of an engine's map or fold fails to compile with a
// message.
//
// A launch reports its own error, not that of an earlier call. It neither allocates, apart from the
// thread's first one, nor waits, so it can be captured in a CUDA graph.

#include <cstddef>
#include <map>

#include <cuda_runtime_api.h>

#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/tiling.hpp"

namespace cubist::CUBIST_ABI::detail
{

#ifdef __CUDACC__

/// Memory for parts of results, of this thread and its current device. Kernels of a stream run one
/// after the other, so they share it; its addresses do not change.
class KernelWorkspace
{
 public:
  static constexpr std::size_t result_bytes = 256;
  /// Enough for what tilings need.
  static constexpr std::size_t part_bytes = std::size_t{4} << 20;

  /// @throws DeviceError if the device is out of memory
  [[nodiscard]] static char* get()
  {
    static thread_local std::map<int, KernelWorkspace> workspaces;
    return workspaces[current_device()].memory();
  }

  KernelWorkspace() = default;
  KernelWorkspace(const KernelWorkspace&) = delete;
  KernelWorkspace& operator=(const KernelWorkspace&) = delete;
  ~KernelWorkspace()
  {
    if (memory_ != nullptr) cudaFree(memory_);
  }

 private:
  char* memory()
  {
    if (memory_ != nullptr) return memory_;
    // A capture of another mode refuses calls that are not part of it.
    auto mode = cudaStreamCaptureModeRelaxed;
    require_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode",
                 "the memory of kernels");
    void* memory = nullptr;
    const auto code = cudaMalloc(&memory, result_bytes + part_bytes);
    require_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode",
                 "the memory of kernels");
    require_cuda(code, "cudaMalloc", "the memory of kernels");
    memory_ = static_cast<char*>(memory);
    return memory_;
  }

  char* memory_ = nullptr;
};

template <class Kernel, class... M>
__global__ void __launch_bounds__(block_threads) run_kernel(Kernel kernel, M... m)
{
  kernel.run(KernelThread{blockIdx.x, threadIdx.x}, m...);
}

template <class Kernel, class... M>
__global__ void __launch_bounds__(block_threads) reduce_kernel(Kernel kernel, M... m)
{
  using Part = typename Kernel::Part;
  __shared__ alignas(
      Part) unsigned char memory[block_threads * Kernel::parts_of_thread * sizeof(Part)];
  Part* const shared = reinterpret_cast<Part*>(memory);
  const KernelThread at{blockIdx.x, threadIdx.x};
  kernel.start(at, shared, m...);
  for (unsigned half = kernel.tree_size() / 2; half > 0; half /= 2)
  {
    __syncthreads();
    kernel.combine(at, half, shared);
  }
  kernel.finish(at, shared);  // a thread finishes what it has combined
}

/// Runs kernels on this thread's device, in its compute stream.
struct CudaKernels
{
  /// kernel.run(thread, m…)
  template <class Kernel, class... M>
  static void run(const Kernel& kernel, const M&... m)
  {
    launch(&run_kernel<Kernel, M...>, kernel, m...);
  }
  /// kernel.start(thread, shared, m…), kernel.combine(thread, half, shared) for half the size of
  /// the tree and its halves down to 1, kernel.finish(thread, shared)
  template <class Kernel, class... M>
  static void reduce(const Kernel& kernel, const M&... m)
  {
    launch(&reduce_kernel<Kernel, M...>, kernel, m...);
  }

  /// Memory for n parts; every call returns the same.
  template <class T>
  [[nodiscard]] static T* workspace(std::size_t n)
  {
    require<DeviceError>(n * sizeof(T) <= KernelWorkspace::part_bytes, "got ", n, " parts of ",
                         sizeof(T),
                         " bytes for a reduction on a device, which are more than its "
                         "workspace holds; please report the shape");
    return reinterpret_cast<T*>(KernelWorkspace::get() + KernelWorkspace::result_bytes);
  }
  /// Memory for one result.
  template <class T>
  [[nodiscard]] static T* result()
  {
    static_assert(sizeof(T) <= KernelWorkspace::result_bytes);
    return reinterpret_cast<T*>(KernelWorkspace::get());
  }
  /// Waits for the result.
  template <class T>
  [[nodiscard]] static T read(const T* result)
  {
    T value;
    require_cuda(
        cudaMemcpyAsync(&value, result, sizeof(T), cudaMemcpyDeviceToHost, ComputeStream::get()),
        "cudaMemcpyAsync", "the result of a fold");
    ComputeStream::synchronize();
    return value;
  }

 private:
  template <class F, class Kernel, class... M>
  static void launch(F* function, const Kernel& kernel, const M&... m)
  {
    void* arguments[] = {address(kernel), address(m)...};
    require_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(function),
                                  dim3{kernel.tiling.blocks()}, dim3{block_threads}, arguments, 0,
                                  ComputeStream::get()),
                 "cudaLaunchKernel", "a kernel over ", kernel.tiling.shape, " elements");
  }
  template <class T>
  static void* address(const T& argument)
  {
    return const_cast<T*>(&argument);
  }
};

#else

template <class F>
inline constexpr bool compiled_by_nvcc = false;

/// Replaces kernels where the compiler is not nvcc.
struct CudaKernels
{
  template <class Kernel, class... M>
  static void run(const Kernel&, const M&...)
  {
    static_assert(
        compiled_by_nvcc<Kernel>,
        "this maps or folds a function on a device, which needs a kernel, and this compiler "
        "compiles none; compile the file with nvcc (CMake: LANGUAGE CUDA), with "
        "--extended-lambda and --expt-relaxed-constexpr");
  }
  template <class Kernel, class... M>
  static void reduce(const Kernel& kernel, const M&... m)
  {
    run(kernel, m...);
  }
  template <class T>
  [[nodiscard]] static T* workspace(std::size_t)
  {
    return nullptr;
  }
  template <class T>
  [[nodiscard]] static T* result()
  {
    return nullptr;
  }
  template <class T>
  [[nodiscard]] static T read(const T*)
  {
    return {};
  }
};

#endif

}  // namespace cubist::CUBIST_ABI::detail
