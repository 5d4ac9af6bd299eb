// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on a mesh of r x c ranks, usually q x q.
//
//   X (M, K), W (K, N), Y (M, N): rows [row] cols [col]
//
// Words a rank, q x q: forward (q-1)/q^2 (MK + KN), backward twice that.
// Source: Xu et al., "An Efficient 2D Method for Training Super-Large Deep Learning Models"
// (Optimus), arXiv 2104.05343; Colossal-AI, 2D Tensor Parallelism.

#include <algorithm>
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
    const auto wished = detail::written({{"q", wish.q}, {"rows", wish.rows}, {"cols", wish.cols}});
    detail::require_extents(name, ranks, {{"q", wish.q}, {"rows", wish.rows}, {"cols", wish.cols}});
    require<MeshError>(wish.q == 0 || (wish.rows == 0 && wish.cols == 0), name, " got ", wished,
                       " for ", ranks,
                       " ranks, but q is both rows and cols; use q alone, or rows and cols");
    int r = std::max(wish.rows, wish.q);
    int c = std::max(wish.cols, wish.q);
    if (r == 0 && c == 0)
    {
      r = detail::middle_divisor(ranks);
      require<MeshError>(
          r > 1 || ranks == 1, name, " got ", ranks,
          " ranks and no extents, but no mesh of several rows and columns uses up that many; use ",
          ranks <= 3 ? 1 : ranks - 1, " or ", ranks <= 3 ? 4 : ranks + 1,
          " ranks, or ask for a single row: ", detail::written({{"rows", 1}, {"cols", ranks}}));
    }
    if (r == 0) r = std::max(1, ranks / c);
    if (c == 0) c = std::max(1, ranks / r);
    const long used = detail::ranks_on({r, c});
    const int fits =
        wish.q != 0 ? detail::middle_divisor(ranks) : detail::nearest_divisor(ranks, r);
    require<MeshError>(
        used == ranks, name, " got ", wished, " for ", ranks,
        " ranks, but ranks would be left out or missing unless rows x cols is their number; use ",
        detail::written({{"rows", fits}, {"cols", ranks / fits}}), detail::or_ranks(used));
    return {r, c};
  }

  [[nodiscard]] static std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(std::lcm(e[0], e[1]));
  }
};

static_assert(Scheme<Summa2D>);

}  // namespace cubist
