// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// SUMMA on d layers of q x q ranks: each layer multiplies its share of the rows by the same
// weights.
//
//   X (M, K), Y (M, N): rows [depth row] cols [col]
//   W (K, N): rows [row] cols [col], replicated along depth; its gradient is summed along depth
//
// Words a rank: forward (q-1)/q^2 (MK/d + KN), backward twice that + 2(d-1)/(d q^2) KN.
// Source: Wang et al., "Tesseract", arXiv 2105.14500; Colossal-AI, 2.5D Tensor Parallelism.

#include <array>
#include <cstddef>

#include "cubist/core/error.hpp"
#include "cubist/dist/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/summa.hpp"

namespace cubist
{

struct Summa25D
{
  static constexpr const char* name = "Summa25D";

  using Axes = cubist::Axes<Depth, Row, Col>;
  using Input = Layout<Rows<Depth, Row>, Cols<Col>>;
  using Weight = Layout<Rows<Row>, Cols<Col>>;
  using Output = Input;
  using Next = Summa25D;
  using Algorithm = Summa<Row, Col>;

  /// d layers of q x q ranks; what is left out follows from the ranks, q as large as it can be.
  struct Extents
  {
    int q = 0;
    int d = 0;
  };

  /// (depth, row, col)
  /// @throws MeshError unless q q d is `ranks`
  [[nodiscard]] static Axes::Array extents(const Extents& wish, int ranks)
  {
    detail::require_extent(name, "q", wish.q);
    detail::require_extent(name, "d", wish.d);
    int q = wish.q;
    if (q == 0)
      for (q = detail::root(ranks, 2); q > 1 && ranks % (q * q) != 0;) --q;
    const int q_derived = q;
    if (wish.q == 0 && wish.d != 0) q = detail::root(ranks / wish.d, 2);
    const int d = wish.d != 0 ? wish.d : ranks / (q * q);
    const int nearest = wish.q == 0 ? q_derived : detail::root(ranks, 2);
    int fits = nearest;
    while (fits > 1 && ranks % (fits * fits) != 0) --fits;
    require<MeshError>(q * q * d == ranks, "got q q d = ", q, " x ", q, " x ", d, " for ", ranks,
                       " ranks, so ranks would be left out or missing; use {.q = ", fits,
                       ", .d = ", ranks / (fits * fits), "}, or ", q * q * d, " ranks");
    return {d, q, q};
  }

  [[nodiscard]] static std::size_t quantum(const Axes::Array& e)
  {
    return static_cast<std::size_t>(e[0] * e[1]);
  }
};

static_assert(Scheme<Summa25D>);

}  // namespace cubist
