// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Fold kernels. Each thread combines elements at a fixed stride, and a tree reduction combines
// threads: the order of combination depends on the shape alone, so results are the same on every
// run.

#include <cstddef>

#include <cuda_runtime_api.h>

#include "cubist/core/block.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/device/check.hpp"
#include "cubist/engine/cuda/buffer.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/launch.hpp"

namespace cubist::detail
{

#ifdef __CUDACC__

/// A partial result, which may be empty because there is no neutral element.
template <class T>
struct Folded
{
  T value;
  bool has_value;

  template <class Combine>
  __device__ void add(const T& x, Combine combine)
  {
    value = has_value ? static_cast<T>(device_result(combine(value, x))) : x;
    has_value = true;
  }
  /// init, combined with the value if there is one.
  template <class Combine>
  __device__ T with(const T& init, Combine combine) const
  {
    return has_value ? static_cast<T>(device_result(combine(init, value))) : init;
  }
};

/// A tree reduction of the partial results of n adjacent threads, n a power of two, into that of
/// the first one. All threads of the block call it; `mine` is that of thread k of the n.
template <class T, class Combine>
__device__ void combine_threads(Folded<T>* mine, unsigned k, unsigned n, Combine combine)
{
  for (unsigned half = n / 2; half > 0; half /= 2)
  {
    __syncthreads();
    if (k >= half) continue;
    const Folded<T>& other = mine[half];
    if (other.has_value) mine->add(other.value, combine);
  }
}

inline constexpr unsigned fold_lanes = 32;

/// out(i, 0) = fold of f(i, j, m(i, j), …) over j; blocks of (fold_lanes, rows) threads
template <class Out, class V, class Combine, class F, class... T>
__global__ void row_kernel(Shape shape, MatrixView<Out> out, V init, Combine combine, F f,
                           MatrixView<T>... m)
{
  auto* const mine =
      shared_memory<Folded<V>, block_threads>() + threadIdx.y * fold_lanes + threadIdx.x;
  for (std::size_t first = std::size_t{blockIdx.x} * blockDim.y; first < shape.rows;
       first += std::size_t{gridDim.x} * blockDim.y)
  {
    const std::size_t i = first + threadIdx.y;
    Folded<V> fold{init, false};
    if (i < shape.rows)
      for (std::size_t j = threadIdx.x; j < shape.cols; j += fold_lanes)
        fold.add(device_result(f(i, j, device_value(m(i, j))...)), combine);
    *mine = fold;
    combine_threads(mine, threadIdx.x, fold_lanes, combine);
    if (i < shape.rows && threadIdx.x == 0) store(out(i, 0), mine->with(init, combine));
    __syncthreads();
  }
}

/// parts[block] = the block's part of the fold of f(i, j, m(i, j), …) over i and j
template <class V, class Combine, class F, class... T>
__global__ void fold_kernel(Shape shape, Folded<V>* parts, V init, Combine combine, F f,
                            MatrixView<T>... m)
{
  const unsigned k = threadIdx.y * blockDim.x + threadIdx.x;
  auto* const mine = shared_memory<Folded<V>, block_threads>() + k;
  Folded<V> fold{init, false};
  const std::size_t rows = std::size_t{gridDim.y} * blockDim.y;
  const std::size_t cols = std::size_t{gridDim.x} * blockDim.x;
  const std::size_t i0 = std::size_t{blockIdx.y} * blockDim.y + threadIdx.y;
  const std::size_t j0 = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (std::size_t i = i0; i < shape.rows; i += rows)
    for (std::size_t j = j0; j < shape.cols; j += cols)
      fold.add(device_result(f(i, j, device_value(m(i, j))...)), combine);
  *mine = fold;
  combine_threads(mine, k, block_threads, combine);
  if (k == 0) parts[std::size_t{blockIdx.y} * gridDim.x + blockIdx.x] = *mine;
}

/// parts[0] = fold of all parts; one block
template <class V, class Combine>
__global__ void parts_kernel(Folded<V>* parts, unsigned count, V init, Combine combine)
{
  auto* const mine = shared_memory<Folded<V>, block_threads>() + threadIdx.x;
  Folded<V> fold{init, false};
  for (unsigned p = threadIdx.x; p < count; p += block_threads)
    if (parts[p].has_value) fold.add(parts[p].value, combine);
  *mine = fold;
  combine_threads(mine, threadIdx.x, block_threads, combine);
  if (threadIdx.x == 0) *parts = {mine->with(init, combine), true};
}

/// @pre there are rows
template <class Out, class V, class Combine, class F, class... T>
void launch_row_fold(Shape shape, MatrixView<Out> out, V init, Combine combine, F f,
                     MatrixView<T>... m)
{
  const dim3 block{fold_lanes, block_threads / fold_lanes};
  const unsigned grid = block_count(shape.rows, block.y, 1U << 20);
  row_kernel<<<grid, block, 0, ComputeStream::get()>>>(shape, out, init, combine, f, m...);
  check_launch("a fold of the rows of ", shape, " elements");
}

/// The first element gets the fold of f(i, j, m(i, j), …) over i and j.
/// @pre there are elements
template <class V, class Combine, class F, class... T>
[[nodiscard]] CudaBuffer<Folded<V>> launch_fold_parts(Shape shape, V init, Combine combine, F f,
                                                      MatrixView<T>... m)
{
  const dim3 block = block_over(shape);
  const unsigned x = block_count(shape.cols, block.x, 32);
  const unsigned y = block_count(shape.rows, block.y, 1024 / x);
  CudaBuffer<Folded<V>> parts(std::size_t{x} * y);
  const auto stream = ComputeStream::get();
  fold_kernel<<<dim3{x, y}, block, 0, stream>>>(shape, parts.data(), init, combine, f, m...);
  parts_kernel<<<1, block_threads, 0, stream>>>(parts.data(), x * y, init, combine);
  check_launch("a fold of ", shape, " elements");
  return parts;
}

/// @pre there are elements
template <class V, class Combine, class F, class... T>
[[nodiscard]] V launch_fold(Shape shape, V init, Combine combine, F f, MatrixView<T>... m)
{
  const auto parts = launch_fold_parts(shape, init, combine, f, m...);
  require_cuda(cudaMemcpyAsync(&init, &parts.data()->value, sizeof(V), cudaMemcpyDeviceToHost,
                               ComputeStream::get()),
               "cudaMemcpyAsync", "the result of a fold");
  ComputeStream::synchronize();
  return init;
}

/// The same in device memory.
template <class V, class Combine, class F, class... T>
void launch_fold_to(V* out, Shape shape, V init, Combine combine, F f, MatrixView<T>... m)
{
  const auto parts = launch_fold_parts(shape, init, combine, f, m...);
  require_cuda(cudaMemcpyAsync(out, &parts.data()->value, sizeof(V), cudaMemcpyDeviceToDevice,
                               ComputeStream::get()),
               "cudaMemcpyAsync", "the result of a fold");
}

#else

template <class Out, class V, class Combine, class F, class... M>
void launch_row_fold(Shape, MatrixView<Out>, V, Combine, F, M...)
{
  require_nvcc<F>();
}
template <class V, class Combine, class F, class... M>
V launch_fold(Shape, V init, Combine, F, M...)
{
  require_nvcc<F>();
  return init;
}
template <class V, class Combine, class F, class... M>
void launch_fold_to(V*, Shape, V, Combine, F, M...)
{
  require_nvcc<F>();
}

#endif

}  // namespace cubist::detail
