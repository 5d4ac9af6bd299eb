// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which blocks of a symmetric C = X X^T (N, N) each of R groups of ranks computes, where group i
// has the rows v_i of X, and what all ranks send.
//
// Only one of the blocks (i, j) and (j, i) is computed. With the groups on a circle, group i
// computes its diagonal block and its blocks with the next groups:
//
//   (i, i + 1), (i, i + 2), … (i, i + ceil(R / 2) - 1)      modulo R
//
// If R is even, the block of two opposite groups is cut into two halves: the first group computes
// the columns for the first half of the second group's rows, and the second group computes the
// rest. So each group computes half of what a gemm would for its rows of C, and needs half of X.
//
//   R = 4    C11 C12 C13'         C13 has two halves, ' and ",
//                C22 C23 C24'     so has C24
//            C31"    C33 C34
//            C41 C42"    C44
//
// A group is S ranks, which split the inner indices (the K columns of X) among themselves. All R S
// ranks send in total exactly this many elements:
//
//   gather   K N G        G N rows of X reach all groups: G = (R - 1) / 2 for odd R; R / 2 - 1 and
//                         the halves for even R, which is R / 2 - 1/4 if they are equal
//   sum      (S - 1) N (N + 1)    an all_reduce of half of C in each group
//   mirror   S (N^2 - sum of v_i^2) / 2
//
// On average, one rank sends 1 / (R S) of them; for N = R v, that is
//
//   G N K / (R S)  +  (S - 1) N (N + 1) / (R S)  +  (R - 1) N^2 / (2 R^2)
//
// Source: Al Daas, Ballard, Grigori, Kumar, Rouse, "Parallel memory-independent communication
// bounds for SYRK", SPAA 2023, arXiv 2409.11304. For R = 1 this is the paper's 1D algorithm,
// followed by an all_gather, because each rank gets all of C. For R > 1 the paper assigns triangles
// of blocks, so X could not be laid out like a weight; here the blocks are those of a round-robin
// tournament.

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cubist/core/block.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A block of C that a group computes: some of its rows times some rows of another group.
struct GramPiece
{
  std::size_t peer = 0;  ///< the other group
  Range mine;            ///< which of this group's rows
  Range theirs;          ///< which of the other group's rows

  [[nodiscard]] Shape shape() const { return {mine.valid, theirs.valid}; }
};

/// Returns the blocks that group `i` computes besides the diagonal one.
/// @param rows the number of rows of X that each group holds
[[nodiscard]] inline std::vector<GramPiece> gram_pieces(const std::vector<std::size_t>& rows,
                                                        std::size_t i)
{
  const std::size_t groups = rows.size();
  const auto range = [](std::size_t begin, std::size_t end) {
    return Range{begin, end - begin, end - begin};
  };
  std::vector<GramPiece> pieces;
  const auto add = [&](std::size_t peer, Range mine, Range theirs) {
    if (mine.valid > 0 && theirs.valid > 0) pieces.push_back({peer, mine, theirs});
  };
  for (std::size_t d = 1; 2 * d < groups; ++d)
  {
    const std::size_t peer = (i + d) % groups;
    add(peer, range(0, rows[i]), range(0, rows[peer]));
  }
  if (groups % 2 == 0)
  {
    const std::size_t peer = (i + groups / 2) % groups;
    const std::size_t half = ceil_div(rows[i < peer ? peer : i], 2);
    if (i < peer)
      add(peer, range(0, rows[i]), range(0, half));
    else
      add(peer, range(half, rows[i]), range(0, rows[peer]));
  }
  return pieces;
}

/// Returns the number of elements that all ranks send in total for C = X X^T, X (N, inner).
/// @param rows the number of rows of X that each group holds; their sum is N
/// @param sharing the number of ranks of a group
[[nodiscard]] inline std::uint64_t gram_elements(const std::vector<std::size_t>& rows,
                                                 std::size_t inner, std::size_t sharing)
{
  std::uint64_t gathered = 0;
  std::uint64_t mirrored = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (const GramPiece& piece : gram_pieces(rows, i))
    {
      gathered += piece.theirs.valid;
      mirrored += piece.shape().size();
    }
  const auto n = std::accumulate(rows.begin(), rows.end(), std::uint64_t{0});
  return inner * gathered + (sharing - 1) * n * (n + 1) + sharing * mirrored;
}

}  // namespace cubist::CUBIST_ABI::detail
