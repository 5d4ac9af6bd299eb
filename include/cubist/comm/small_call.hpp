// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Decides which collectives, and which windows that peers only read, are small enough for one
// round. Between ranks that share memory, each rank copies what it sends to memory that all can
// read, waits until all have done so, and reads. A rank that reads peers' buffers in place would
// have to wait twice more, until the sums are complete and until all have read its buffer. Between
// nodes, the ranks of a short all_reduce send their blocks to each other, and each adds all of
// them, which takes one latency instead of two.

#include <algorithm>
#include <cstddef>

#include "cubist/comm/call.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Returns the maximum number of bytes that one rank may copy.
[[nodiscard]] constexpr std::size_t longest_copy(std::size_t ranks)
{
  constexpr std::size_t of_a_rank = 4096;
  constexpr std::size_t of_all = 16 * of_a_rank;  // each rank reads them
  return std::min(of_a_rank, of_all / ranks);
}

/// The bytes that one rank sends in a collective whose blocks or pieces have `bytes` each.
[[nodiscard]] constexpr std::size_t bytes_to_copy(CallKind kind, std::size_t bytes,
                                                  std::size_t ranks)
{
  return kind == CallKind::all_to_all || kind == CallKind::reduce_scatter ? ranks * bytes : bytes;
}

/// Whether a call takes one round: each rank waits for all others anyway, and what they send is
/// short. A window in which peers write is not small, whatever its size.
[[nodiscard]] constexpr bool is_small(CallKind kind, std::size_t bytes, std::size_t ranks)
{
  const bool waits_for_all = kind == CallKind::all_gather || kind == CallKind::all_to_all ||
                             kind == CallKind::reduce_scatter || kind == CallKind::all_reduce ||
                             kind == CallKind::expose;
  return waits_for_all && bytes_to_copy(kind, bytes, ranks) <= longest_copy(ranks);
}

/// Whether an all_reduce by messages sends whole blocks of `bytes`, rather than shares and then
/// their sums. Up to this size, the two rounds of shorter messages take longer on links of 1
/// Gbit/s.
[[nodiscard]] constexpr bool sends_blocks(std::size_t bytes, std::size_t ranks)
{
  constexpr std::size_t most = 32 * 1024;
  return (ranks - 1) * bytes <= most;
}

}  // namespace cubist::CUBIST_ABI::detail
