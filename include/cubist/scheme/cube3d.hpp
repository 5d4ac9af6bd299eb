// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A cube of q x q x q ranks: Grid3D with x = y = z = q.
//
//   X (M, K) rows [z y] cols [x]    W (K, N) rows [x z] cols [y]    Y (M, N) rows [z x] cols [y]
//
// Elements that one rank sends: forward (q-1)/q^3 (MK + KN + MN); backward the same if the gathered
// operands are kept, otherwise (q-1)/q^3 (MK + KN) more.
// Source: Bian et al., "Maximizing Parallelism in Distributed Training for Huge Neural Networks",
// arXiv 2105.14450; Colossal-AI, 3D Tensor Parallelism.

#include "cubist/core/error.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <class X, class Y>
struct BasicCube3D : BasicGrid3D<X, Y>
{
  static constexpr const char* name = "Cube3D";

  using Axes = cubist::Axes<AxisX, AxisY, AxisZ>;
  using Next = BasicCube3D<Y, X>;

  /// The edge of the cube. If it is left out, it follows from the number of ranks.
  struct Extents
  {
    int q = 0;  ///< along each of the three axes; 0: the cube root of the ranks
  };

  /// Returns (x, y, z).
  /// @throws MeshError unless q q q is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    detail::require_extents(name, ranks, {{"q", requested.q}});
    const int edge = detail::root(ranks, 3);
    const bool is_cube = edge * edge * edge == ranks;
    const int q = requested.q != 0 ? requested.q : edge;
    require<MeshError>(
        requested.q == 0 || q == edge, name, " got ", detail::extents_text({{"q", q}}), " for ",
        ranks,
        " ranks, but q·q·q must be the number of ranks, or some would be left out or missing; use ",
        is_cube ? detail::extents_text({{"q", edge}})
                : detail::nearest_powers(ranks, 3) + " and leave q out",
        detail::or_ranks(detail::ranks_on({q, q, q})));
    require<MeshError>(is_cube, name, " got ", ranks,
                       " ranks, which is not a cube q·q·q, so some would be left out; use ",
                       detail::nearest_powers(ranks, 3), ", or Grid3D, which takes any number");
    return {q, q, q};
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && e[0] == e[1] && e[1] == e[2];
  }
};

using Cube3D = BasicCube3D<AxisX, AxisY>;

static_assert(SchemeType<Cube3D>);

}  // namespace cubist::CUBIST_ABI
