// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Map and column-sum kernels. Each thread of a column sums elements at a fixed stride, and a tree
// reduction combines threads: the order depends on the shape alone, so sums are the same on every
// run.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/launch.hpp"

namespace cubist::detail
{

#ifdef __CUDACC__

/// f(i, j, m(i, j), …)
template <class F, class... T>
__global__ void element_kernel(Shape shape, F f, MatrixView<T>... m)
{
  const std::size_t rows = std::size_t{gridDim.y} * blockDim.y;
  const std::size_t cols = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t i0 = std::size_t{blockIdx.y} * blockDim.y + threadIdx.y;
  const std::size_t j0 = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t i = i0; i < shape.rows; i += rows)
    for (std::size_t j = j0; j < shape.cols; j += cols) f(i, j, m(i, j)...);
}

inline constexpr unsigned sum_rows = 32;
inline constexpr unsigned sum_cols = 32;
inline constexpr unsigned sum_threads = sum_rows * sum_cols;

/// sums[j] = sum over i of f(i, j, m(i, j), …), blocks of (sum_cols, sum_rows) threads
template <class S, class F, class... T>
__global__ __launch_bounds__(sum_threads) void column_kernel(Shape shape, S* sums, F f,
                                                             MatrixView<T>... m)
{
  using Sum = DeviceValue<S>;
  auto* const all = shared_memory<Sum, sum_threads>();
  auto* const mine = all + threadIdx.y * sum_cols + threadIdx.x;
  const std::size_t j = std::size_t{blockIdx.x} * sum_cols + threadIdx.x;
  Sum sum{};
  if (j < shape.cols)
    for (std::size_t i = threadIdx.y; i < shape.rows; i += sum_rows) sum += f(i, j, m(i, j)...);
  *mine = sum;
  for (unsigned half = sum_rows / 2; half > 0; half /= 2)
  {
    __syncthreads();
    if (threadIdx.y < half) *mine += mine[half * sum_cols];
  }
  if (threadIdx.y == 0 && j < shape.cols) store(sums[j], *mine);
}

/// @pre there are elements
template <class F, class... T>
void launch_elements(Shape shape, F f, MatrixView<T>... m)
{
  const dim3 block = block_over(shape);
  const dim3 grid{block_count(shape.cols, block.x, 1U << 20),
                  block_count(shape.rows, block.y, 65535)};
  element_kernel<<<grid, block, 0, ComputeStream::get()>>>(shape, f, m...);
  check_launch("a map over ", shape, " elements");
}

/// @pre there are columns
template <class S, class F, class... T>
void launch_column_sums(Shape shape, S* sums, F f, MatrixView<T>... m)
{
  const unsigned grid = block_count(shape.cols, sum_cols, 1U << 30);
  column_kernel<<<grid, dim3{sum_cols, sum_rows}, 0, ComputeStream::get()>>>(shape, sums, f, m...);
  check_launch("column sums of ", shape, " elements");
}

#else

template <class F, class... M>
void launch_elements(Shape, F, M...)
{
  require_nvcc<F>();
}
template <class S, class F, class... M>
void launch_column_sums(Shape, S*, F, M...)
{
  require_nvcc<F>();
}

#endif

}  // namespace cubist::detail
