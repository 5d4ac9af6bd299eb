// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// How the work of C = A B may be cut, whatever the blocks of C are: into m x n x k cuboids of
// scalar products, each for one rank, its worker.
//
//   A (M, K), B (K, N); a worker computes an (M/m, N/n) sum over K/k inner indices
//
// Source: the surfaces of cuboids that Irony, Toledo and Tiskin, "Communication lower bounds for
// distributed-memory matrix multiplication", 2004, bound.

#include <cstddef>
#include <vector>

#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Into how many parts each dimension of a product is cut.
struct WorkCut
{
  std::size_t m = 1;
  std::size_t n = 1;
  std::size_t k = 1;

  [[nodiscard]] constexpr std::size_t workers() const { return m * n * k; }
  /// The block of C that a worker computes.
  [[nodiscard]] Block block(ProductSize s, std::size_t worker) const
  {
    return {part(s.m, m, worker / n % m), part(s.n, n, worker % n)};
  }
  /// The inner indices that it sums over.
  [[nodiscard]] Range inner(ProductSize s, std::size_t worker) const
  {
    return part(s.k, k, worker / n / m);
  }
  friend bool operator==(const WorkCut&, const WorkCut&) = default;

 private:
  [[nodiscard]] static Range part(std::size_t size, std::size_t parts, std::size_t i)
  {
    return block_range(size, pad(size, parts), parts, i);
  }
};

/// All cuts among so many workers, those with the fewest parts of K first.
[[nodiscard]] inline std::vector<WorkCut> work_cuts(std::size_t workers)
{
  std::vector<WorkCut> all;
  for (std::size_t k = 1; k <= workers; ++k)
    for (std::size_t m = 1; workers % k == 0 && m <= workers / k; ++m)
      if (workers / k % m == 0) all.push_back({m, workers / k / m, k});
  return all;
}

}  // namespace cubist::CUBIST_ABI::detail
