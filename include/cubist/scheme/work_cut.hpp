// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How the work of C = A B is cut among ranks that can all read all of A and B: into m x n x k
// cuboids of its products, one for each rank.
//
//   A (M, K), B (K, N); a rank makes an (M/m, N/n) sum over K/k inner indices
//
// Where k = 1 and the cut is that of C, a rank multiplies straight into its block of C. Any other
// cut writes what it makes to a place of its own, from which the owners of C take it: 4 M N / (m n)
// more words of memory are read and written. That pays where C is small and its own cut leaves
// strips to multiply.
//
// Source: the surfaces of cuboids that Irony, Toledo and Tiskin, "Communication lower bounds for
// distributed-memory matrix multiplication", 2004, bound.

#include <cstddef>
#include <optional>

#include "cubist/core/block.hpp"

namespace cubist::detail
{

/// Into how many parts each dimension of a product is cut.
struct WorkCut
{
  std::size_t m = 1;
  std::size_t n = 1;
  std::size_t k = 1;

  [[nodiscard]] ProductSize largest(ProductSize s) const
  {
    return {ceil_div(s.m, m), ceil_div(s.n, n), ceil_div(s.k, k)};
  }
  friend bool operator==(const WorkCut&, const WorkCut&) = default;
};

/// The time of a rank that multiplies this much, in words read or written. A core makes about 32
/// products in the time of one such word, in float and in double alike; BLAS copies either operand.
[[nodiscard]] inline double work_words(ProductSize s)
{
  const auto m = static_cast<double>(s.m);
  const auto n = static_cast<double>(s.n);
  const auto k = static_cast<double>(s.k);
  return m * n * k / 32 + (m + n) * k;
}

/// The cut of a product over `ranks` ranks by which it is done before those that make `own` each
/// and write it in place; none if there is no such cut.
[[nodiscard]] inline std::optional<WorkCut> better_cut(ProductSize size, std::size_t ranks,
                                                       ProductSize own)
{
  constexpr double together = 1 << 16;  // the ranks wait for each other once more
  double least = work_words(own);
  std::optional<WorkCut> best;
  for (std::size_t m = 1; m <= ranks; ++m)
    for (std::size_t n = 1; ranks % m == 0 && n <= ranks / m; ++n)
    {
      if (ranks / m % n != 0) continue;
      const WorkCut cut{m, n, ranks / m / n};
      const auto part = cut.largest(size);
      const double words = work_words(part) + 4 * static_cast<double>(part.m * part.n) + together;
      const bool as_good = words == least && best && cut.k < best->k;
      if (words < least || as_good) least = words, best = cut;
    }
  return best;
}

}  // namespace cubist::detail
