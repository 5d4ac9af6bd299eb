// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Launches kernels on a device, and holds the memory for parts of their results. Only nvcc compiles
// kernels; with another compiler, a call of an engine's map or fold fails to compile with a
// message.
//
// A launch reports its own error, not that of an earlier call. It does not wait, and allocates only
// for the thread's first launch, so it can be captured in a CUDA graph.

#include <algorithm>
#include <cstddef>
#include <map>

#include <cuda_runtime_api.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/tiling.hpp"
#include "cubist/engine/cuda/transfer.hpp"

namespace cubist::CUBIST_ABI::detail
{

#ifdef __CUDACC__

/// This thread's memory for parts of results, on its current device. A stream runs its kernels one
/// after the other, so they share the memory; its addresses do not change.
class KernelWorkspace
{
 public:
  static constexpr std::size_t result_bytes = 256;
  /// Enough for all groups of blocks that share a result, and for the parts that tilings need.
  static constexpr std::size_t counter_bytes = filling_blocks(many_residents) * sizeof(unsigned);
  static constexpr std::size_t part_bytes = std::size_t{4} << 20;
  static_assert(counter_bytes % 16 == 0);

  /// Returns the start of the memory.
  /// @throws DeviceError if the device is out of memory
  [[nodiscard]] static char* get()
  {
    static thread_local std::map<int, KernelWorkspace> workspaces;
    return workspaces[current_device()].memory();
  }

  /// The counters of the groups of blocks, which are 0 between kernels.
  [[nodiscard]] static unsigned* arrived()
  {
    return reinterpret_cast<unsigned*>(get() + result_bytes);
  }
  [[nodiscard]] static char* parts() { return get() + result_bytes + counter_bytes; }

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
    // A capture in a different mode refuses calls that are not part of it.
    auto mode = cudaStreamCaptureModeRelaxed;
    require_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode",
                 "the memory of kernels");
    void* memory = nullptr;
    auto code = cudaMalloc(&memory, result_bytes + counter_bytes + part_bytes);
    if (code == cudaSuccess) code = clear(static_cast<char*>(memory) + result_bytes);
    require_cuda(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode",
                 "the memory of kernels");
    require_cuda(code, "cudaMalloc", "the memory of kernels");
    memory_ = static_cast<char*>(memory);
    return memory_;
  }

  /// Sets the counters to 0, in a stream that no other stream waits for.
  static cudaError_t clear(char* counters)
  {
    cudaStream_t stream = nullptr;
    auto code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (code != cudaSuccess) return code;
    code = cudaMemsetAsync(counters, 0, counter_bytes, stream);
    if (code == cudaSuccess) code = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return code;
  }

  char* memory_ = nullptr;
};

template <class Kernel, class... M>
__global__ void __launch_bounds__(block_threads) run_kernel(Kernel kernel, M... m)
{
  kernel.run(KernelThread{blockIdx.x, threadIdx.x}, m...);
}

/// Runs the `start`, `combine` and `finish` of a kernel, for one thread of a block.
template <class Kernel, class... M>
__device__ void reduce_block(const Kernel& kernel, KernelThread at, unsigned char* memory,
                             const M&... m)
{
  auto* const shared = reinterpret_cast<typename Kernel::Part*>(memory);
  kernel.start(at, shared, m...);
  for (unsigned half = kernel.tree_size() / 2; half > 0; half /= 2)
  {
    __syncthreads();
    kernel.combine(at, half, shared);
  }
  kernel.finish(at, shared);  // each thread finishes what it has combined
}

template <class... Kernel>
inline constexpr std::size_t reduce_bytes = block_threads*
    std::max({sizeof(typename Kernel::Part)...});

template <class Kernel, class... M>
__global__ void __launch_bounds__(block_threads) reduce_kernel(Kernel kernel, M... m)
{
  __shared__ alignas(16) unsigned char memory[reduce_bytes<Kernel>];
  reduce_block(kernel, {blockIdx.x, threadIdx.x}, memory, m...);
}

/// Whether this block is the last of its group to arrive. If so, it sees what all of them wrote.
/// @param arrived  how many have arrived: 0 before the first one and after the last one
__device__ inline bool is_last_of_group(unsigned* arrived, unsigned blocks)
{
  __shared__ bool is_last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicInc(arrived, blocks - 1) == blocks - 1;
  __syncthreads();
  if (is_last) __threadfence();
  return is_last;
}

template <class Kernel, class Last, class Parts, class... M>
__global__ void __launch_bounds__(block_threads, Kernel::residents)
    reduce_parts_kernel(Kernel kernel, Last last, unsigned* arrived, Parts parts, M... m)
{
  __shared__ alignas(16) unsigned char memory[reduce_bytes<Kernel, Last>];
  const KernelThread at{blockIdx.x, threadIdx.x};
  reduce_block(kernel, at, memory, m...);
  const unsigned group = kernel.group(at);
  if (is_last_of_group(arrived + group, kernel.blocks_of_group()))
    reduce_block(last, {group, at.thread}, memory, parts);
}

/// Neighbouring threads of a warp that compute a row as a team.
/// @tparam n  the number of threads, a power of two
template <unsigned n>
struct PartOfWarp
{
  static constexpr unsigned size = n;

  /// Combines all threads' x with `add(x, other)`. In each step of a tree two threads combine equal
  /// values, so all threads get equal bits if x and other may be exchanged.
  template <class V, class Add>
  [[nodiscard]] __device__ static V combine(V x, Add add)
  {
    CUBIST_UNROLL
    for (unsigned half = size / 2; half > 0; half /= 2) add(x, of_thread(x, half));
    return x;
  }

 private:
  /// Returns the x of the team's thread whose number differs from this thread's in one bit.
  template <class V>
  [[nodiscard]] __device__ static V of_thread(const V& x, unsigned bit)
  {
    constexpr unsigned words = sizeof(V) / sizeof(unsigned);
    static_assert(words * sizeof(unsigned) == sizeof(V));
    // The warp's other teams may have no row.
    const unsigned team =
        size == 32 ? ~0U : ((1U << size % 32) - 1) << threadIdx.x % 32 / size * size;
    unsigned part[words];
    memcpy(part, &x, sizeof(V));
    CUBIST_UNROLL
    for (unsigned w = 0; w < words; ++w) part[w] = __shfl_xor_sync(team, part[w], bit);
    V other;
    memcpy(&other, part, sizeof(V));
    return other;
  }
};

/// A block whose threads compute a row as a team.
struct WholeBlock
{
  static constexpr unsigned size = block_threads;

  /// Combines all threads' x with `add(x, other)`; all of them get equal bits.
  template <class V, class Add>
  [[nodiscard]] __device__ static V combine(const V& x, Add add)
  {
    using Warp = PartOfWarp<32>;
    constexpr unsigned warps = size / Warp::size;
    __shared__ alignas(16) unsigned char memory[warps * sizeof(V)];
    auto* const of_warps = reinterpret_cast<V*>(memory);
    const V of_warp = Warp::combine(x, add);
    __syncthreads();  // all threads have read what an earlier call wrote
    if (threadIdx.x % Warp::size == 0) of_warps[threadIdx.x / Warp::size] = of_warp;
    __syncthreads();
    return PartOfWarp<warps>::combine(V{of_warps[threadIdx.x % warps]}, add);
  }
};

/// Runs kernels on this thread's device, in its compute stream.
struct CudaKernels
{
  using SmallTeam = PartOfWarp<4>;
  using Team = PartOfWarp<32>;
  using LargeTeam = WholeBlock;

  /// Calls kernel.run(thread, m…) in each thread.
  template <class Kernel, class... M>
  static void run(const Kernel& kernel, const M&... m)
  {
    launch(&run_kernel<Kernel, M...>, kernel, m...);
  }
  /// Calls kernel.start(thread, shared, m…), then kernel.combine(thread, half, shared) for half the
  /// size of the tree, half of that, and so on down to 1, then kernel.finish(thread, shared).
  template <class Kernel, class... M>
  static void reduce(const Kernel& kernel, const M&... m)
  {
    launch(&reduce_kernel<Kernel, M...>, kernel, m...);
  }
  /// Runs reduce(kernel, m…), whose blocks write parts, and reduce(last, parts): block g of `last`
  /// runs as soon as the blocks of group g have written their parts.
  template <class Kernel, class Last, class P, class... M>
  static void reduce_parts(const Kernel& kernel, const Last& last, const MatrixView<P>& parts,
                           const M&... m)
  {
    launch(&reduce_parts_kernel<Kernel, Last, MatrixView<P>, M...>, kernel, last,
           KernelWorkspace::arrived(), parts, m...);
  }

  /// Memory for n parts; every call returns the same memory.
  template <class T>
  [[nodiscard]] static T* workspace(std::size_t n)
  {
    require<DeviceError>(n * sizeof(T) <= KernelWorkspace::part_bytes, "got ", n, " parts of ",
                         sizeof(T),
                         " bytes for a reduction on a device, which are more than its "
                         "workspace holds; please report the shape");
    return reinterpret_cast<T*>(KernelWorkspace::parts());
  }
  /// Memory for one result.
  template <class T>
  [[nodiscard]] static T* result()
  {
    static_assert(sizeof(T) <= KernelWorkspace::result_bytes);
    return reinterpret_cast<T*>(KernelWorkspace::get());
  }
  /// Waits for the result, and returns it.
  template <class T>
  [[nodiscard]] static T read(const T* result)
  {
    T value;
    copy_and_wait(MatrixView<const T>{result, {1, 1}}, MatrixView<T>{&value, {1, 1}},
                  cudaMemcpyDeviceToHost);
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

/// Stands for kernels if the compiler is not nvcc. Whatever calls it does not compile.
struct CudaKernels
{
  struct Team
  {
    static constexpr unsigned size = 32;
    template <class V, class Add>
    static V combine(const V&, Add);
  };
  using SmallTeam = Team;
  using LargeTeam = Team;

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
  template <class Kernel, class... M>
  static void reduce_parts(const Kernel& kernel, const M&... m)
  {
    run(kernel, m...);
  }
  template <class T>
  static T* workspace(std::size_t);
  template <class T>
  static T* result();
  template <class T>
  static T read(const T*);
};

#endif

}  // namespace cubist::CUBIST_ABI::detail
