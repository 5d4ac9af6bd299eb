// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What kernels and their launches share. Only nvcc compiles them; other compilers see what engines
// call, and say so where it is called.

#include <algorithm>
#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/device/check.hpp"

#ifdef __CUDACC__

namespace cubist::detail
{

inline constexpr unsigned block_threads = 256;

/// How many blocks take n elements, `each` at a time: up to `most`, which then go round.
[[nodiscard]] inline unsigned blocks_of(std::size_t n, unsigned each, std::size_t most)
{
  return static_cast<unsigned>(std::clamp<std::size_t>(ceil_div(n, each), 1, most));
}

/// Threads side by side along the columns, as far as these reach, and then along the rows.
[[nodiscard]] inline dim3 block_over(Shape s)
{
  unsigned x = 1;
  while (x < block_threads && x < s.cols) x *= 2;
  return {x, block_threads / x};
}

/// Memory of a block of threads, for one T each.
template <class T, unsigned threads>
__device__ T* shared_memory()
{
  __shared__ alignas(T) unsigned char memory[threads * sizeof(T)];
  return reinterpret_cast<T*>(memory);
}

template <class... What>
void require_launched(const What&... what)
{
  require_cuda(cudaGetLastError(), "the launch of a kernel", what...);
}

}  // namespace cubist::detail

#else

namespace cubist::detail
{

template <class F>
inline constexpr bool compiled_by_nvcc = false;

/// Instead of a launch.
template <class F>
constexpr void require_nvcc()
{
  static_assert(compiled_by_nvcc<F>,
                "this maps or folds a function on a device, which becomes a kernel, and this "
                "compiler makes none; compile the file with nvcc (CMake: LANGUAGE CUDA), with "
                "--extended-lambda and --expt-relaxed-constexpr");
}

}  // namespace cubist::detail

#endif
