// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on a mesh of r x c ranks, usually q x q.
//
//   X (M, K), W (K, N), Y (M, N): rows [row] cols [col]
//
// Words a rank, q x q: forward (q-1)/q^2 (MK + KN), backward twice that.
// Source: Xu et al., "An Efficient 2D Method for Training Super-Large Deep Learning Models"
// (Optimus), arXiv 2104.05343; Colossal-AI, 2D Tensor Parallelism.

#include <array>
#include <cstddef>
#include <numeric>

#include "cubist/core/error.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/summa.hpp"

namespace cubist
{

struct Summa2D
{
  static constexpr const char* name = "Summa2D";

  using Axes = cubist::Axes<Row, Col>;
  using Input = Layout<Rows<Row>, Cols<Col>>;
  using Weight = Layout<Rows<Row>, Cols<Col>>;
  using Output = Input;
  using Next = Summa2D;
  using Algorithm = Summa<Row, Col>;

  /// q for a square mesh, or rows and cols; what is left out follows from the ranks.
  struct Extents
  {
    int q = 0;
    int rows = 0;
    int cols = 0;
  };

  /// (row, col)
  /// @throws MeshError unless the extents multiply up to `ranks`
  [[nodiscard]] static Axes::Array extents(const Extents& wish, int ranks)
  {
    detail::require_extent(name, "q", wish.q);
    detail::require_extent(name, "rows", wish.rows);
    detail::require_extent(name, "cols", wish.cols);
    int r = wish.rows != 0 ? wish.rows : wish.q;
    int c = wish.cols != 0 ? wish.cols : wish.q;
    if (r == 0 && c == 0)
    {
      r = detail::middle_divisor(ranks);
      require<MeshError>(r > 1 || ranks == 1, "got ", ranks,
                         " ranks, which no mesh of several rows and columns uses up; use ",
                         ranks - 1, " or ", ranks + 1,
                         " ranks, or ask for a single row: {.rows = 1, .cols = ", ranks, "}");
    }
    if (r == 0) r = ranks / c;
    if (c == 0) c = ranks / r;
    const int middle = detail::middle_divisor(ranks);
    require<MeshError>(r * c == ranks, "got rows x cols = ", r, " x ", c, " for ", ranks,
                       " ranks, so ranks would be left out or missing; use {.rows = ", middle,
                       ", .cols = ", ranks / middle, "}, or ", r * c, " ranks");
    return {r, c};
  }

  [[nodiscard]] static std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(std::lcm(e[0], e[1]));
  }
};

static_assert(Scheme<Summa2D>);

}  // namespace cubist
