// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of maps: each thread calls a function with its elements of all matrices.
//
// Kernels are objects, which a device's threads call (launch.hpp), and tests call on the host.

#include <cstddef>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/tiling.hpp"

namespace cubist::detail
{

/// f(i, j, m(i, j), …)
template <class F, unsigned n>
struct ElementKernel
{
  Tiling tiling;
  bool aligned;
  F f;

  template <class... T>
  CUBIST_HOST_DEVICE void run(KernelThread at, const MatrixView<T>&... m) const
  {
    tiling.for_chunks(at, [&](std::size_t i, std::size_t j) {
      for_chunk<n>(
          aligned, i, j, tiling.shape.cols, [&](unsigned k, auto&... x) { f(i, j + k, x...); },
          m...);
    });
  }
};

/// @pre there are elements
template <class Kernels, class F, class... T>
void map_elements(Shape shape, F f, MatrixView<T>... m)
{
  constexpr unsigned n = sizeof...(T) == 0 ? 1 : chunk_width_of<T...>;
  const ElementKernel<F, n> kernel{map_tiling(shape, n), (chunks_are_aligned<n>(m) && ...), f};
  Kernels::run(kernel, m...);
}

}  // namespace cubist::detail
