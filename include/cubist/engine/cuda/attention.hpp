// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Attention in one pass on a device (engine/attention.hpp), for 16-bit elements and heads of 64 or
// 128 features. It needs compute capability 8.0 or newer.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>

#include <cuda_runtime_api.h>

#include "cubist/core/matrix_view.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/cuda/check.hpp"
#include "cubist/engine/attention.hpp"
#include "cubist/engine/cuda/attention_kernels.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/warp.hpp"

namespace cubist::CUBIST_ABI::detail
{

#ifdef __CUDACC__

template <class T, class Kernel>
__global__ void __launch_bounds__(32 * DeviceWarp<T>::count) attention_kernel(Kernel kernel)
{
  extern __shared__ __align__(16) unsigned char memory[];
  kernel.run(DeviceWarp<T>{}, reinterpret_cast<T*>(memory));
}

/// Computes attention on this thread's device, in its compute stream.
template <ShortReal T>
class FusedAttention
{
 public:
  /// Computes O and L.
  /// @returns false, and computes nothing, if the sizes, the strides or the device do not fit
  [[nodiscard]] static bool forward(const AttentionOperands<T>& on, MatrixView<T> o)
  {
    const AttentionShape& s = on.s;
    if (!fits(s, {{&on.q, &s.q}, {&on.k, &s.k}, {&on.v, &s.v}}) || !fits(s, o, s.o)) return false;
    return with_head_size(s, [&]<unsigned size>() {
      return launch(AttentionForward<T, size>{on, o});
    });
  }
  /// Computes dQ, dK, dV and D.
  /// @returns false, and computes nothing, if the sizes, the strides or the device do not fit
  [[nodiscard]] static bool backward(const AttentionOperands<T>& on, MatrixView<T> dq,
                                     MatrixView<T> dk, MatrixView<T> dv)
  {
    const AttentionShape& s = on.s;
    if (!fits(s, {{&on.q, &s.q}, {&on.k, &s.k}, {&on.v, &s.v}, {&on.o, &s.o}, {&on.d_o, &s.o}}) ||
        !fits(s, dq, s.q) || !fits(s, dk, s.k) || !fits(s, dv, s.v))
      return false;
    return with_head_size(s, [&]<unsigned size>() {
      return launch(AttentionQueryGradient<T, size>{on, dq}) &&
             launch(AttentionKeyGradient<T, size>{on, dk, dv});
    });
  }

 private:
  struct Operand
  {
    const MatrixView<const T>* view;
    const HeadColumns* columns;
  };
  static constexpr unsigned threads = 32 * DeviceWarp<T>::count;

  template <class F>
  [[nodiscard]] static bool with_head_size(const AttentionShape& s, F f)
  {
    if (s.head_size == 64) return f.template operator()<64>();
    if (s.head_size == 128) return f.template operator()<128>();
    return false;
  }

  /// Whether the heads of a matrix begin at multiples of 16 bytes, in every row.
  [[nodiscard]] static bool fits(const AttentionShape& s, const MatrixView<const T>& m,
                                 const HeadColumns& columns)
  {
    constexpr std::size_t n = access_bytes / sizeof(T);
    return reinterpret_cast<std::uintptr_t>(m.data()) % access_bytes == 0 && m.ld() % n == 0 &&
           columns.first % n == 0 &&
           (columns.width == 0 || (columns.width % s.head_size == 0 && columns.stride % n == 0));
  }
  [[nodiscard]] static bool fits(const AttentionShape& s, std::initializer_list<Operand> operands)
  {
    for (const auto& [view, columns] : operands)
      if (!fits(s, *view, *columns)) return false;
    // A row of scores without keys has no softmax.
    return s.keys > 0 && (!s.causal || s.keys >= s.queries);
  }

  template <class F>
  [[nodiscard]] static bool prepare(F* function, int bytes)
  {
    cudaFuncAttributes found{};
    require_cuda(cudaFuncGetAttributes(&found, function), "cudaFuncGetAttributes", "attention");
    if (found.ptxVersion < 80) return false;
    require_cuda(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes),
                 "cudaFuncSetAttribute", "attention with ", bytes, " bytes of shared memory");
    return true;
  }
  /// @returns false if the kernel was compiled only for devices without its instructions
  template <class Kernel>
  [[nodiscard]] static bool launch(const Kernel& kernel)
  {
    auto* const function = &attention_kernel<T, Kernel>;
    constexpr auto bytes = static_cast<int>(Kernel::shared_elements() * sizeof(T));
    static thread_local std::map<int, bool> on_devices;
    const auto [found, is_new] = on_devices.try_emplace(current_device(), false);
    if (is_new) found->second = prepare(function, bytes);
    const auto blocks = kernel.blocks(16 * DeviceWarp<T>::count);
    if (!found->second || blocks > 0x7FFF'FFFFU) return false;
    if (blocks == 0) return true;
    void* arguments[] = {const_cast<Kernel*>(&kernel)};
    require_cuda(cudaLaunchKernel(reinterpret_cast<const void*>(function),
                                  dim3{static_cast<unsigned>(blocks)}, dim3{threads}, arguments,
                                  bytes, ComputeStream::get()),
                 "cudaLaunchKernel", "attention of ", kernel.on.s.sequences, " sequences");
    return true;
  }
};

#else

/// Computes nothing: nvcc does not compile this file, so there are no kernels.
template <ShortReal T>
struct FusedAttention
{
  [[nodiscard]] static bool forward(const AttentionOperands<T>&, MatrixView<T>) { return false; }
  [[nodiscard]] static bool backward(const AttentionOperands<T>&, MatrixView<T>, MatrixView<T>,
                                     MatrixView<T>)
  {
    return false;
  }
};

#endif

}  // namespace cubist::CUBIST_ABI::detail
