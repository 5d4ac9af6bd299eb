// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on a mesh of r x c ranks, usually q x q.
//
//   Summa2D        Y stays    X (M, K), W (K, N), Y (M, N): rows [row] cols [col]
//   Summa2DInput   X stays    W: rows [col] cols [row], X and Y as above
//   Summa2DWeight  W stays    X: rows [col] cols [row], W and Y as above; the next layer has rows
//                             and columns swapped
//
// Elements that one rank sends, on q x q ranks: forward (q-1)/q^2 times the two matrices that move,
// MK + KN for Summa2D; backward twice that.
// Source: Xu et al., "An Efficient 2D Method for Training Super-Large Deep Learning Models"
// (Optimus), arXiv 2104.05343; Colossal-AI, 2D Tensor Parallelism.

#include <algorithm>
#include <array>
#include <cstddef>
#include <numeric>
#include <type_traits>

#include "cubist/algorithm/summa/summa.hpp"
#include "cubist/core/error.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <Stationary stationary, class R = Row, class C = Col>
struct BasicSumma2D : SummaLayouts<stationary, R, C>
{
  static constexpr const char* name = stationary == Stationary::output  ? "Summa2D"
                                      : stationary == Stationary::input ? "Summa2DInput"
                                                                        : "Summa2DWeight";

  using Axes = cubist::Axes<Row, Col>;
  using Next = std::conditional_t<stationary == Stationary::weight, BasicSumma2D<stationary, C, R>,
                                  BasicSumma2D>;
  using Algorithm = Summa<R, C, stationary>;

  /// q for a square mesh, or rows and cols. Extents that are left out follow from the ranks.
  struct Extents
  {
    int q = 0;  ///< along row and col
    int rows = 0;
    int cols = 0;
  };

  /// Returns (row, col).
  /// @throws MeshError unless the product of the extents is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    const std::array<detail::NamedExtent, 3> given{
        {{"q", requested.q}, {"rows", requested.rows}, {"cols", requested.cols}}};
    const auto text = detail::extents_text(given);
    detail::require_extents(name, ranks, given);
    require<MeshError>(
        requested.q == 0 || (requested.rows == 0 && requested.cols == 0), name, " got ", text,
        " for ", ranks,
        " ranks, but q stands for both rows and cols; use q alone, or rows and cols");
    int r = std::max(requested.rows, requested.q);
    int c = std::max(requested.cols, requested.q);
    if (r == 0 && c == 0)
    {
      r = detail::largest_divisor(ranks, detail::root(ranks, 2));
      require<MeshError>(
          r > 1 || ranks == 1, name, " got ", ranks,
          " ranks and no extents, but no mesh of several rows and columns uses up that many; use ",
          ranks <= 3 ? 1 : ranks - 1, " or ", ranks <= 3 ? 4 : ranks + 1,
          " ranks, or ask for a single row: ",
          detail::extents_text({{"rows", 1}, {"cols", ranks}}));
    }
    if (r == 0) r = std::max(1, ranks / c);
    if (c == 0) c = std::max(1, ranks / r);
    const long used = detail::ranks_on({r, c});
    const int fits = requested.q != 0 ? detail::largest_divisor(ranks, detail::root(ranks, 2))
                                      : detail::nearest_divisor(ranks, r);
    require<MeshError>(
        used == ranks, name, " got ", text, " for ", ranks,
        " ranks, but rows x cols must be the number of ranks, or some would be left out or "
        "missing; use ",
        detail::extents_text({{"rows", fits}, {"cols", ranks / fits}}), detail::or_ranks(used));
    return {r, c};
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && e[1] >= 1;
  }

  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return static_cast<std::size_t>(std::lcm(e[0], e[1]));
  }
};

using Summa2D = BasicSumma2D<Stationary::output>;
/// X is stationary: it is not sent.
using Summa2DInput = BasicSumma2D<Stationary::input>;
/// W is stationary: it is not sent.
using Summa2DWeight = BasicSumma2D<Stationary::weight>;

static_assert(SchemeType<Summa2D> && SchemeType<Summa2DInput> && SchemeType<Summa2DWeight>);

}  // namespace cubist::CUBIST_ABI
