// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of a function that computes whole rows (PassesRows in engine/engine.hpp). A team of
// threads has a row. Only its first pass reads the row from the device's memory, because later
// passes find it in a cache.
//
// A sum adds each thread's chunks from left to right, and then the threads' sums in a tree, so its
// order depends on the number of columns and the types alone.

#include <cstddef>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/tiling.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Row i of matrices, for one of the threads of its team.
/// @tparam Team  `size`, the number of its threads, a power of two, and `sum(x)`, the sum of their
///               x, which each of them gets
template <class Team>
class TeamRow
{
 public:
  CUBIST_HOST_DEVICE TeamRow(Shape shape, std::size_t i, unsigned thread)
      : shape_{shape}, i_{i}, thread_{thread}
  {
  }

  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t index() const { return i_; }

  /// The sum of f(m(i, j), …) over all columns j; what f returns has += and is zero as V{}.
  template <class F, class... T>
  [[nodiscard]] CUBIST_HOST_DEVICE auto sum(const F& f, const MatrixView<T>&... m) const
  {
    using V = decltype(f(device_value(std::declval<const T&>())...));
    V mine{};
    for_chunks([&](const auto&... x) { mine += f(device_value(x)...); }, m...);
    return Team::sum(mine);
  }
  /// out(i, j) = f(in(i, j), …) for all columns j
  template <class T, class F, class... In>
  CUBIST_HOST_DEVICE void map(const MatrixView<T>& out, const F& f,
                              const MatrixView<In>&... in) const
  {
    for_chunks([&](T& to, const In&... x) { store(to, f(device_value(x)...)); }, out, in...);
  }
  /// values[i] = value
  template <class V>
  CUBIST_HOST_DEVICE void set(V* values, const V& value) const
  {
    if (thread_ == 0) values[i_] = value;
  }

 private:
  /// f(m(i, j)…) for the columns of this thread
  template <class F, class... T>
  CUBIST_HOST_DEVICE void for_chunks(const F& f, const MatrixView<T>&... m) const
  {
    constexpr unsigned n = chunk_width_of<T...>, series = sizeof...(T) <= 2 ? 4 : 2;
    const bool aligned = (chunks_are_aligned<n>(m) && ...);
    constexpr std::size_t apart = std::size_t{Team::size} * n;
    for (std::size_t j = std::size_t{thread_} * n; j < shape_.cols; j += series * apart)
      for_series<n, series>(
          aligned, {i_, j, 0, apart}, shape_, [&](unsigned, unsigned, auto&... x) { f(x...); },
          m...);
  }

  Shape shape_;
  std::size_t i_;
  unsigned thread_;
};

/// f(row) for each row
template <class Team, class F>
struct RowKernel
{
  Tiling tiling;
  F f;

  CUBIST_HOST_DEVICE void run(KernelThread at) const
  {
    const std::size_t i = tiling.row(at);
    if (i < tiling.shape.rows) f(TeamRow<Team>{tiling.shape, i, at.thread % Team::size});
  }
};

/// @pre there are rows
template <class Kernels, class F>
void pass_rows(Shape shape, const F& f)
{
  using Team = typename Kernels::Team;
  Tiling tiling{shape, 1, Team::size};
  tiling.blocks_down = static_cast<unsigned>(ceil_div(shape.rows, tiling.down()));
  Kernels::run(RowKernel<Team, F>{tiling, f});
}

}  // namespace cubist::CUBIST_ABI::detail
