// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What kernel launches share. Only nvcc compiles kernels; with another compiler, a call of an
// engine's map or fold fails to compile with a message.

#include <algorithm>
#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/device/check.hpp"

#ifdef __CUDACC__

namespace cubist::detail
{

inline constexpr unsigned block_threads = 256;

/// The number of blocks for n elements, `each` per block: at most `most`, with a grid-stride loop.
[[nodiscard]] inline unsigned block_count(std::size_t n, unsigned each, std::size_t most)
{
  return static_cast<unsigned>(std::clamp<std::size_t>(ceil_div(n, each), 1, most));
}

/// A block of threads over as many columns as there are, and then over rows.
[[nodiscard]] inline dim3 block_over(Shape s)
{
  unsigned x = 1;
  while (x < block_threads && x < s.cols) x *= 2;
  return {x, block_threads / x};
}

/// Shared memory for one T per thread of a block.
template <class T, unsigned threads>
__device__ T* shared_memory()
{
  __shared__ alignas(T) unsigned char memory[threads * sizeof(T)];
  return reinterpret_cast<T*>(memory);
}

template <class... What>
void check_launch(const What&... what)
{
  require_cuda(cudaGetLastError(), "the launch of a kernel", what...);
}

}  // namespace cubist::detail

#else

namespace cubist::detail
{

template <class F>
inline constexpr bool compiled_by_nvcc = false;

/// Replaces a launch where the compiler is not nvcc.
template <class F>
constexpr void require_nvcc()
{
  static_assert(
      compiled_by_nvcc<F>,
      "this maps or folds a function on a device, which needs a kernel, and this compiler "
      "compiles none; compile the file with nvcc (CMake: LANGUAGE CUDA), with "
      "--extended-lambda and --expt-relaxed-constexpr");
}

}  // namespace cubist::detail

#endif
