// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A mesh of x x y x z ranks, of any extents. Every matrix is cut over all ranks, and none is
// replicated.
//
//   X (M, K) rows [z y] cols [x]    W (K, N) rows [x z] cols [y]    Y (M, N) rows [z x] cols [y]
//
// X is gathered along y, W along z, and Y scattered along x. The next layer has x and y swapped.
//
// Elements that one rank sends: forward [(y-1) MK + (z-1) KN + (x-1) MN] / xyz; backward the same
// if the gathered operands are kept, otherwise [(y-1) MK + (z-1) KN] / xyz more.
// Source: Bian et al., "Maximizing Parallelism in Distributed Training for Huge Neural Networks",
// arXiv 2105.14450; MindSpore, High Dimension Tensor Parallel, 3D.

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <class X, class Y>
struct BasicGrid3D
{
  static constexpr const char* name = "Grid3D";

  using Axes = cubist::Axes<AxisX, AxisY, AxisZ>;
  using Input = Layout<Rows<AxisZ, Y>, Cols<X>>;
  using Weight = Layout<Rows<X, AxisZ>, Cols<Y>>;
  using Output = Layout<Rows<AxisZ, X>, Cols<Y>>;
  using Next = BasicGrid3D<Y, X>;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;

  /// The extents of the three axes. Those that are left out share the ranks that the others leave,
  /// as evenly as possible.
  struct Extents
  {
    int x = 0;  ///< along axis x
    int y = 0;  ///< along axis y
    int z = 0;  ///< along axis z
  };

  /// Returns (x, y, z).
  /// @throws MeshError unless x y z is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::free_extents<3>(name, ranks,
                                   {{{"x", requested.x}, {"y", requested.y}, {"z", requested.z}}});
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return std::all_of(e.begin(), e.end(), [](int n) { return n >= 1; });
  }

  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return static_cast<std::size_t>(e[2] * std::lcm(e[0], e[1]));
  }
};

using Grid3D = BasicGrid3D<AxisX, AxisY>;

static_assert(SchemeType<Grid3D>);

}  // namespace cubist::CUBIST_ABI
