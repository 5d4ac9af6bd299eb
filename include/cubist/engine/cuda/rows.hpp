// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The kernel of a function that computes whole rows (PassesRows in engine/engine.hpp). A team of
// threads computes a row: four threads, a warp, or a block, depending on the length of rows. Only
// its first pass reads the row from the device's memory. Later passes find it in a cache, unless
// rows are very long.
//
// A sum or fold takes each thread's chunks from left to right, and then combines the threads in a
// tree. So its order depends only on the number of columns and the types.

#include <cstddef>
#include <utility>

#include "cubist/core/block.hpp"
#include "cubist/core/host_device.hpp"
#include "cubist/core/matrix_view.hpp"
#include "cubist/engine/cuda/chunks.hpp"
#include "cubist/engine/cuda/folds.hpp"
#include "cubist/engine/cuda/functions.hpp"
#include "cubist/engine/cuda/tiling.hpp"
#include "cubist/engine/functions.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// x = combine(x, other), for values that may be empty
template <class Combine>
struct FoldTo
{
  Combine combine;

  template <class V>
  CUBIST_HOST_DEVICE void operator()(Folded<V>& x, const Folded<V>& other) const
  {
    x.add(other, combine);
  }
};

/// Row i of matrices, for one of the threads of its team.
/// @tparam Team  has `size`, the number of its threads, a power of two, and `combine(x, add)`,
/// which combines all threads' x by add(x, other) and gives each of them the result
template <class Team>
class TeamRow
{
 public:
  CUBIST_HOST_DEVICE TeamRow(Shape shape, std::size_t i, unsigned thread)
      : shape_{shape},
        i_{i},
        thread_{thread}
  {
  }

  [[nodiscard]] CUBIST_HOST_DEVICE std::size_t index() const { return i_; }

  /// Returns the sum of f(m(i, j), …) over all columns j. The type V that f returns has +=, and its
  /// zero is V{}.
  template <class F, class... T>
  [[nodiscard]] CUBIST_HOST_DEVICE auto sum(const F& f, const MatrixView<T>&... m) const
  {
    using V = decltype(f(device_value(std::declval<const T&>())...));
    V mine{};
    for_chunks([&](std::size_t, const auto&... x) { mine += f(device_value(x)...); }, m...);
    return Team::combine(mine, Add{});
  }
  /// Returns the fold of f(i, j, m(i, j), …) over all columns j, starting with init.
  template <class V, class Combine, class F, class... T>
  [[nodiscard]] CUBIST_HOST_DEVICE V fold(const V& init, Combine combine, const F& f,
                                          const MatrixView<T>&... m) const
  {
    Folded<V> mine{init, false};
    for_chunks(
        [&](std::size_t j, const auto&... x) { mine.add(device_result(f(i_, j, x...)), combine); },
        m...);
    return Team::combine(mine, FoldTo<Combine>{combine}).with(init, combine);
  }
  /// Sets out(i, j) = f(in(i, j), …) for all columns j.
  template <class T, class F, class... In>
  CUBIST_HOST_DEVICE void map(const MatrixView<T>& out, const F& f,
                              const MatrixView<In>&... in) const
  {
    for_chunks([&](std::size_t, T& to, const In&... x) { store(to, f(device_value(x)...)); }, out,
               in...);
  }
  /// Whether this thread maps column j of matrices of these types.
  template <class... T>
  [[nodiscard]] CUBIST_HOST_DEVICE bool owns(std::size_t j, const MatrixView<T>&...) const
  {
    return j / chunk_width_of<T...> % Team::size == thread_;
  }
  /// Sets values[i] = value.
  template <class V>
  CUBIST_HOST_DEVICE void set(V* values, const V& value) const
  {
    if (thread_ == 0) values[i_] = value;
  }
  /// Sets column(i, 0) = value.
  template <class T, class V>
  CUBIST_HOST_DEVICE void store_in(const MatrixView<T>& column, const V& value) const
  {
    if (thread_ == 0) detail::store(column(i_, 0), value);
  }

 private:
  /// Calls f(j, m(i, j)…) for the columns of this thread.
  template <class F, class... T>
  CUBIST_HOST_DEVICE void for_chunks(const F& f, const MatrixView<T>&... m) const
  {
    constexpr unsigned n = chunk_width_of<T...>, series = sizeof...(T) <= 2 ? 4 : 2;
    const bool aligned = (chunks_are_aligned<n>(m) && ...);
    constexpr std::size_t apart = std::size_t{Team::size} * n;
    for (std::size_t j = std::size_t{thread_} * n; j < shape_.cols; j += series * apart)
      for_series<n, series>(
          aligned, {i_, j, 0, apart}, shape_,
          [&](unsigned r, unsigned k, auto&... x) { f(j + r * apart + k, x...); }, m...);
  }

  Shape shape_;
  std::size_t i_;
  unsigned thread_;
};

/// Calls f(row, m…) for each row.
template <class Team, class F>
struct RowKernel
{
  Tiling tiling;
  F f;

  template <class... M>
  CUBIST_HOST_DEVICE void run(KernelThread at, const M&... m) const
  {
    const std::size_t i = tiling.row(at);
    if (i < tiling.shape.rows) f(TeamRow<Team>{tiling.shape, i, at.thread % Team::size}, m...);
  }
};

/// A row of up to this many elements gets a few threads.
inline constexpr std::size_t short_row = 256;
/// A row of at least this many elements gets a block, whose threads have several chunks each.
inline constexpr std::size_t long_row = 4096;

/// Whether one team for each row fills a device.
template <class Team>
[[nodiscard]] bool rows_fill_device(Shape shape)
{
  return shape.rows / (block_threads / Team::size) >= filling_blocks();
}

/// Calls f(row, m…) for each row, with this type of team.
/// @pre there are rows
template <class Kernels, class Team, class F, class... M>
void pass_rows_by(Shape shape, const F& f, const M&... m)
{
  Tiling tiling{shape, 1, Team::size};
  tiling.blocks_down = static_cast<unsigned>(ceil_div(shape.rows, tiling.down()));
  Kernels::run(RowKernel<Team, F>{tiling, f}, m...);
}
/// Calls f(row) for each row.
/// @pre there are rows
template <class Kernels, class F>
void pass_rows(Shape shape, const F& f)
{
  if (shape.cols <= short_row)
    pass_rows_by<Kernels, typename Kernels::SmallTeam>(shape, f);
  else if (shape.cols < long_row)
    pass_rows_by<Kernels, typename Kernels::Team>(shape, f);
  else
    pass_rows_by<Kernels, typename Kernels::LargeTeam>(shape, f);
}

/// out(i, 0) = the fold of f(i, j, m(i, j), …) over j, for row i of a team
template <class Out, class V, class Combine, class F>
struct FoldRow
{
  MatrixView<Out> out;
  V init;
  Combine combine;
  F f;

  template <class Row, class... T>
  CUBIST_HOST_DEVICE void operator()(const Row& row, const MatrixView<T>&... m) const
  {
    row.store_in(out, row.fold(init, combine, f, m...));
  }
};

/// Sets out(i, 0) to the fold of f(i, j, m(i, j), …) over j. If rows are short and many, a few
/// threads fold each of them; otherwise the kernels of folds.hpp do.
/// @pre there are rows
template <class Kernels, class Out, class V, class Combine, class F, class... T>
void fold_rows(MatrixView<Out> out, Shape shape, V init, Combine combine, F f, MatrixView<T>... m)
{
  using Team = typename Kernels::SmallTeam;
  if (shape.cols <= short_row && rows_fill_device<Team>(shape))
    pass_rows_by<Kernels, Team>(shape, FoldRow<Out, V, Combine, F>{out, init, combine, f}, m...);
  else
    fold_to<Kernels>(out, true, shape, init, combine, f, m...);
}

}  // namespace cubist::CUBIST_ABI::detail
