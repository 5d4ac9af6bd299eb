// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Assigns the work of C = A B to ranks that can read and write each other's blocks: which parts of
// C a rank multiplies, where it writes them, and what it reads from its peers afterwards.
//
//   A (M, K), B (K, N), C (M, N): any layouts
//
// Why a rank does not simply multiply its own block: eight ranks on two cores that do so reach 0.7
// to 0.95 of the speed of BLAS on both cores. Ranks that take turns on a core empty each other's
// caches; the last core works alone at the end; and BLAS, which packs one factor again for each
// block of the other, loses most on small or narrow blocks. So there are three ways to assign the
// work. A model of the time, with the figures of `GemmRates`, chooses the fastest:
//
//   per rank    each rank computes its own block of C; replicas of a block compute a share of its
//               rows each, and copy the others' shares;
//   per worker  as many ranks as there are cores, the workers, compute all ranks' blocks in place.
//               Replicas need not cut their block into more shares than there are workers;
//   by cut      the work is cut differently from C, into m x n x k cuboids of scalar products.
//               Each worker computes one in a workspace, and the holders of C copy or add up what
//               they need. That pays where blocks or pieces are too small for the gemm kernel. If C
//               has few elements, the inner indices may be cut among all ranks, so that each reads
//               its own blocks of A and B, and waits for others only once before it adds up.
//
// docs/decisions/0027-work-assignment.md has the measurements. Source of the cuboids, whose surface
// is what a worker reads and writes: Irony, Toledo, Tiskin, "Communication lower bounds for
// distributed-memory matrix multiplication", 2004.

#include <cstddef>
#include <vector>

#include "cubist/algorithm/direct/block_products.hpp"
#include "cubist/core/block.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/matrix/placement.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The number of parts into which each dimension of a product is cut. A worker computes an (M/m,
/// N/n) block, summed over K/k inner indices.
struct WorkCut
{
  std::size_t m = 1;
  std::size_t n = 1;
  std::size_t k = 1;

  [[nodiscard]] constexpr std::size_t workers() const { return m * n * k; }
  /// Returns the block of C that a worker computes.
  [[nodiscard]] Block block(ProductSize s, std::size_t worker) const
  {
    return {part(s.m, m, worker / n % m), part(s.n, n, worker % n)};
  }
  /// Returns the inner indices over which a worker sums.
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

/// Returns all cuts for this many workers, those with the fewest parts of K first.
[[nodiscard]] std::vector<WorkCut> work_cuts(std::size_t workers);

/// One rank's work for C = A B.
struct WorkAssignment
{
  /// A part of this rank's block that a peer computes, in the peer's block of C or in its
  /// workspace.
  struct PeerPart
  {
    Corner from;
    Corner to;
    Shape shape;
    bool first = true;  // the first of several that are added up here
  };

  std::vector<BlockProduct> products;
  Rectangle zero_k;           // the part of this rank's block that no product writes because K is 0
  bool writes_c = false;      // whether any rank writes to another's block of C
  bool in_workspace = false;  // whether products are computed in workspaces, not in C
  Shape workspace;            // the workspace of a worker; the same on all ranks
  bool reads_a = false;       // whether any rank reads another's block of A
  bool reads_b = false;
  bool reads_c = false;  // whether any rank reads another's block of C, or its workspace
  std::vector<PeerPart> peer_parts;
  /// The predicted time, in units of `GemmRates`, and the part of it that is spent in products.
  double time = 0;
  double products_time = 0;
  /// The number of ranks that multiply: worker i of them is rank i * ranks / workers.
  int workers = 0;
};

/// Returns what `rank` does if the work is assigned in the fastest way.
/// @param cores the number of cores that the ranks share
[[nodiscard]] WorkAssignment assign_work(const Placement& a, const Placement& b, const Placement& c,
                                         int rank, int cores, std::size_t scalar_bytes,
                                         const GemmRates& rates = {},
                                         ProductList list = ProductList::to_compute);

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/algorithm/direct/work_assignment_body.hpp")
