// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of a function of many groups of matrices (engine/matrix_groups.hpp): a block of
// threads for each group. A group of one row whose matrices are aligned is read and written by
// vectors of 16 bytes or more.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/compute_stream.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/launch.hpp"
#include "cubist/engine/matrix_groups.hpp"

namespace cubist::detail
{

#ifdef __CUDACC__

/// Adjacent elements in registers, which a thread loads and stores at once.
template <class T, unsigned n>
struct alignas(16) GroupVector
{
  T x[n];
};

/// A matrix of a group.
template <class T>
struct GroupMatrix
{
  T* data;
  std::size_t ld;

  /// The elements from `index` on, a multiple of n.
  template <unsigned n>
  __device__ GroupVector<std::remove_const_t<T>, n> load(std::size_t index) const
  {
    return *reinterpret_cast<const GroupVector<std::remove_const_t<T>, n>*>(data + index);
  }
  template <unsigned n>
  __device__ void store(std::size_t index, const GroupVector<std::remove_const_t<T>, n>& v) const
  {
    if constexpr (!std::is_const_v<T>) *reinterpret_cast<GroupVector<T, n>*>(data + index) = v;
  }
  [[nodiscard]] __device__ bool is_aligned() const
  {
    return reinterpret_cast<std::uintptr_t>(data) % 16 == 0;
  }
};

/// f(v.x[k]…) for all k, and stores the vectors.
template <unsigned n, class F, class... T>
__device__ void map_vectors(const F& f, std::size_t index, GroupMatrix<T>... m)
{
  const auto map = [&](auto... v) {
    for (unsigned k = 0; k < n; ++k) f(0, 0, static_cast<T&>(v.x[k])...);
    (m.template store<n>(index, v), ...);
  };
  map(m.template load<n>(index)...);
}

template <class F, class... T>
__device__ void map_group(const F& f, std::size_t rows, std::size_t cols, GroupMatrix<T>... m)
{
  constexpr unsigned n = 16 / std::min({sizeof(T)...});
  std::size_t begin = 0;
  if (rows == 1 && (m.is_aligned() && ...))
  {
    begin = cols - cols % n;
    for (std::size_t j = std::size_t{threadIdx.x} * n; j < begin; j += std::size_t{blockDim.x} * n)
      map_vectors<n>(f, j, m...);
  }
  for (std::size_t e = begin + threadIdx.x; e < rows * cols; e += blockDim.x)
  {
    const std::size_t i = rows == 1 ? 0 : e / cols;
    const std::size_t j = e - i * cols;
    f(0, 0, m.data[i * m.ld + j]...);
  }
}

template <class F, class... T, std::size_t... k>
__device__ void map_group(const F& f, const MatrixGroup& g, MatrixTypes<T...>,
                          std::index_sequence<k...>)
{
  map_group(f, g.rows, g.cols, GroupMatrix<T>{static_cast<T*>(g.data[k]), g.ld[k]}...);
}

template <class F, class... T>
__global__ void __launch_bounds__(block_threads)
    group_kernel(const F* f, const MatrixGroup* groups, MatrixTypes<T...> types)
{
  map_group(IgnoreIndices<F>{*f}, groups[blockIdx.x], types, std::index_sequence_for<T...>{});
}

/// @pre there are groups
template <class F, class... T>
void launch_groups(const F* f, const MatrixGroup* groups, std::size_t count,
                   MatrixTypes<T...> types)
{
  group_kernel<<<static_cast<unsigned>(count), block_threads, 0, ComputeStream::get()>>>(f, groups,
                                                                                         types);
  check_launch("a map over ", count, " groups of matrices");
}

#else

template <class F, class... T>
void launch_groups(const F*, const MatrixGroup*, std::size_t, MatrixTypes<T...>)
{
  require_nvcc<F>();
}

#endif

}  // namespace cubist::detail
