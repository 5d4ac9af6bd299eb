// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A grid of r x c ranks for chains of products with symmetric matrices, such as a Newton-Schulz
// iteration: A = X X^T, B = b A + c A^2, X <- a X + B X.
//
//   B (M, M) rows [row] cols []    X (M, N) rows [row] cols [col]    Y = B X as X
//
// DistGram makes A from X, and B from A (matmul/dist_gram.hpp); B X is a DistMatMul. So no matrix
// is redistributed between iterations. B does not move; X is gathered along row.
//
// Elements that one rank sends: forward (r-1) MN / rc.
// Source: the iteration is that of Jordan et al., "Muon: An optimizer for hidden layers in neural
// networks", 2024.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cubist/algorithm/gather/gather_multiply_scatter.hpp"
#include "cubist/algorithm/gram/gram_pieces.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/error.hpp"
#include "cubist/matrix/layout.hpp"
#include "cubist/scheme/extents.hpp"
#include "cubist/scheme/scheme.hpp"
#include "cubist/scheme/summa2d.hpp"

namespace cubist::CUBIST_ABI
{

struct GramGrid
{
  static constexpr const char* name = "GramGrid";

  using Axes = cubist::Axes<Row, Col>;
  using Input = Layout<Rows<Row>, Cols<>>;
  using Weight = Layout<Rows<Row>, Cols<Col>>;
  using Output = Weight;
  using Next = Summa2D;
  using Algorithm = GatherMultiplyScatter<Input, Weight, Output>;

  /// The numbers of rows and columns. If one is left out, it follows from the ranks; if both are,
  /// they are as equal as possible.
  struct Extents
  {
    int rows = 0;
    int cols = 0;
  };

  /// Returns (row, col).
  /// @throws MeshError unless rows x cols is `ranks`
  [[nodiscard]] static Axes::Array extents(const Extents& requested, int ranks)
  {
    return detail::free_extents<2>(name, ranks,
                                   {{{"rows", requested.rows}, {"cols", requested.cols}}});
  }

  [[nodiscard]] static constexpr bool fits(const Axes::Array& e) { return e[0] >= 1 && e[1] >= 1; }

  [[nodiscard]] static constexpr std::size_t quantum(const Axes::Array& /*extents*/) { return 1; }

  /// Returns the elements that all ranks send in total in one iteration for X (m, n): in two
  /// products with the transpose, and in B X.
  [[nodiscard]] static std::uint64_t elements_of_iteration(const Axes::Array& e, std::size_t m,
                                                           std::size_t n)
  {
    const auto r = static_cast<std::size_t>(e[0]);
    const auto c = static_cast<std::size_t>(e[1]);
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < r; ++i) rows.push_back(block_range(m, pad(m, r), r, i).valid);
    return detail::gram_elements(rows, n, c) + detail::gram_elements(rows, m, c) +
           (r - 1) * pad(m, r) * pad(n, c);
  }

  /// Returns the extents on which an iteration for X (m, n) sends the fewest elements. Ranks that
  /// share memory (can_expose) read blocks in place, so they get the grid on which nothing is
  /// summed.
  /// @pre ranks > 0
  [[nodiscard]] static Axes::Array best_extents(int ranks, std::size_t m, std::size_t n,
                                                bool share_memory = false)
  {
    if (share_memory)
    {
      const auto most = static_cast<int>(std::clamp<std::size_t>(m, 1, std::size_t(ranks)));
      const int r = detail::largest_divisor(ranks, most);
      return {r, ranks / r};
    }
    Axes::Array best{1, ranks};
    std::uint64_t fewest = elements_of_iteration(best, m, n);
    for (int r = 2; r <= ranks; ++r)
    {
      if (ranks % r != 0) continue;
      const Axes::Array e{r, ranks / r};
      const std::uint64_t elements = elements_of_iteration(e, m, n);
      if (elements < fewest) best = e, fewest = elements;
    }
    return best;
  }
};

static_assert(SchemeType<GramGrid>);

}  // namespace cubist::CUBIST_ABI
