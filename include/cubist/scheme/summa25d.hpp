// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on d layers of q x q ranks. Each layer multiplies its share of the rows by the same
// weights.
//
//   X (M, K), Y (M, N): rows [depth row] cols [col]
//   W (K, N): rows [row] cols [col], replicated along depth; its gradient is summed along depth
//
//   Summa25D        Y stays
//   Summa25DInput   X stays    W: rows [col] cols [row]
//   Summa25DWeight  W stays    X: rows [depth col] cols [row]; the next layer has rows and columns
//                              swapped
//
// Elements that one rank sends: forward (q-1)/q^2 times the two matrices that a layer of ranks
// moves, MK/d + KN for Summa25D; backward twice as much, plus 2(d-1)/(d q^2) KN.
// Source: Wang et al., "Tesseract", arXiv 2105.14500; Colossal-AI, 2.5D Tensor Parallelism.

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "cubist/algorithm/summa/summa.hpp"
#include "cubist/core/error.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"

namespace cubist::CUBIST_ABI
{

template <Stationary stationary, class R = Row, class C = Col>
struct BasicSumma25D : SummaLayouts<stationary, R, C, Depth>
{
  static constexpr const char* name = stationary == Stationary::output  ? "Summa25D"
                                      : stationary == Stationary::input ? "Summa25DInput"
                                                                        : "Summa25DWeight";

  using Axes = cubist::Axes<Depth, Row, Col>;
  using Next = std::conditional_t<stationary == Stationary::weight, BasicSumma25D<stationary, C, R>,
                                  BasicSumma25D>;
  using Algorithm = Summa<R, C, stationary>;

  /// d layers of q x q ranks. Extents that are left out follow from the ranks, with q as large as
  /// possible.
  struct Extents
  {
    int q = 0;  ///< along row and col
    int d = 0;  ///< along depth
  };

  /// Returns (depth, row, col).
  /// @throws MeshError unless q q d is `ranks`
  [[nodiscard]] static typename Axes::Array extents(const Extents& requested, int ranks)
  {
    detail::require_extents(name, ranks, {{"q", requested.q}, {"d", requested.d}});
    const auto largest = [ranks](int limit) {
      int q = std::min(limit, detail::root(ranks, 2));
      while (ranks % (q * q) != 0) --q;
      return q;
    };
    int q = requested.q;
    if (q == 0)
      q = requested.d == 0 ? largest(ranks) : std::max(1, detail::root(ranks / requested.d, 2));
    const int d = requested.d != 0
                      ? requested.d
                      : std::max(1, static_cast<int>(ranks / detail::ranks_on({q, q})));
    const long used = detail::ranks_on({q, q, d});
    const int fits = largest(requested.q != 0 ? q : ranks);
    require<MeshError>(
        used == ranks, name, " got ",
        detail::extents_text({{"q", requested.q}, {"d", requested.d}}), " for ", ranks,
        " ranks, but q·q·d must be the number of ranks, or some would be left out or missing; use ",
        detail::extents_text({{"q", fits}, {"d", ranks / (fits * fits)}}), detail::or_ranks(used));
    return {d, q, q};
  }

  [[nodiscard]] static constexpr bool fits(const typename Axes::Array& e)
  {
    return e[0] >= 1 && e[1] >= 1 && e[1] == e[2];
  }

  [[nodiscard]] static constexpr std::size_t quantum(const typename Axes::Array& e)
  {
    return static_cast<std::size_t>(e[0] * e[1]);
  }
};

using Summa25D = BasicSumma25D<Stationary::output>;
/// X is stationary: it is not sent.
using Summa25DInput = BasicSumma25D<Stationary::input>;
/// W is stationary: it is not sent.
using Summa25DWeight = BasicSumma25D<Stationary::weight>;

static_assert(SchemeType<Summa25D> && SchemeType<Summa25DInput> && SchemeType<Summa25DWeight>);

}  // namespace cubist::CUBIST_ABI
