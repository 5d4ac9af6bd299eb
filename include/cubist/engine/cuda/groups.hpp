// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel that applies a function to many groups of matrices (engine/matrix_groups.hpp). Each
// group gets one block of threads.

#include <cstddef>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/tiling.hpp"
#include "cubist/engine/matrix_groups.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Calls f(m(i, j), …) on the matrices of one group: block b of threads takes group b.
template <class F, class... T>
struct GroupKernel
{
  Tiling tiling;
  const F* f;
  const MatrixGroup* groups;

  CUBIST_HOST_DEVICE void run(KernelThread at) const
  {
    map_group(at.thread, groups[at.block], std::index_sequence_for<T...>{});
  }

 private:
  template <std::size_t... k>
  CUBIST_HOST_DEVICE void map_group(unsigned thread, const MatrixGroup& g,
                                    std::index_sequence<k...>) const
  {
    map(thread, {g.rows, g.cols},
        MatrixView<T>{static_cast<T*>(g.data[k]), g.rows, g.cols, g.ld[k]}...);
  }
  CUBIST_HOST_DEVICE void map(unsigned thread, Shape shape, const MatrixView<T>&... m) const
  {
    constexpr unsigned n = chunk_width_of<T...>;
    const IgnoreIndices<F> g{*f};
    const bool aligned = (chunks_are_aligned<n>(m) && ...);
    const Tiling one{shape, n, shape.rows == 1 ? block_threads : 32};
    one.for_chunks({0, thread}, [&](std::size_t i, std::size_t j) {
      for_chunk<n>(
          aligned, i, j, shape.cols, [&](unsigned, auto&... x) { g(0, 0, x...); }, m...);
    });
  }
};

}  // namespace cubist::CUBIST_ABI::detail
