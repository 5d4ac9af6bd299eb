// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Chooses how replicas of a table, such as that of an embedding, complete its gradient. The layer
// and the planner ask the same formula.
//
//   table E (V, d), on n groups of ranks    rows H (M, d), each of which looks up one row of E; the
//                                           groups divide H's R blocks of at most m rows
//
//   rows        every block of dH sends its sums to all groups, and each adds up all of them
//   all_reduce  every group adds up the sums of its blocks; then the groups add up their terms
//
// Elements that all ranks send in total from one group to another, at most:
//
//   rows        (n - 1) d min(M, R min(V, m))    a block has a sum for each distinct id
//   all_reduce  (n - 1) d 2 V                    2 (n - 1) / n of a block on each rank
//
// These are maxima, because ranks also reserve memory for them.

#include <algorithm>
#include <cstddef>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Whether an all_reduce of the gradient sends fewer elements than sums of rows may send.
/// @param vocabulary, rows  V and M  @param blocks, block_rows  R and m
[[nodiscard]] constexpr bool all_reduces_table(std::size_t vocabulary, std::size_t rows,
                                               std::size_t blocks, std::size_t block_rows)
{
  return std::min(rows, blocks * std::min(vocabulary, block_rows)) > 2 * vocabulary;
}

}  // namespace cubist::CUBIST_ABI::detail
