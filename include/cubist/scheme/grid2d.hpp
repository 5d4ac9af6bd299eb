// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A mesh of x x y ranks on which rows stay whole: all ranks together cut activations by columns.
//
//   X (M, K) rows [] cols [x y]    W (K, N) rows [x] cols [y]    Y (M, N) rows [] cols [y x]
//
// X is gathered along y and Y scattered along x, both by columns; W never moves. The next layer has
// x and y swapped.
//
// Elements that one rank sends: forward [(y-1) MK + (x-1) MN] / xy; backward the same if the
// gathered X is kept, otherwise (y-1) MK / xy more.
// Source: MindSpore, High Dimension Tensor Parallel, 2D.

#include <cstddef>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <class X, class Y>
struct BasicGrid2D
{
  static constexpr const char* name = "Grid2D";

  using Axes = cubist::Axes<AxisX, AxisY>;
  using Input = Layout<Rows<>, Cols<X, Y>>;
  using Weight = Layout<Rows<X>, Cols<Y>>;
  using Output = Layout<Rows<>, Cols<Y, X>>;
  using Next = BasicGrid2D<Y, X>;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;

  /// The extents of both axes. If one is left out, it follows from the ranks; if both are, they are
  /// as equal as possible.
  struct Extents
  {
    int x = 0;  ///< along axis x
    int y = 0;  ///< along axis y
  };

  /// Returns (x, y).
  /// @throws MeshError unless x y is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::free_extents<2>(name, ranks, {{{"x", requested.x}, {"y", requested.y}}});
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && e[1] >= 1;
  }

  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return static_cast<std::size_t>(e[0] * e[1]);
  }
};

using Grid2D = BasicGrid2D<AxisX, AxisY>;

static_assert(SchemeType<Grid2D>);

}  // namespace cubist::CUBIST_ABI
