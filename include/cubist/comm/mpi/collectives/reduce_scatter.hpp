// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// reduce_scatter: a direct exchange of pieces, which each rank then combines in the order of
// comm/reduction.hpp. all_reduce: a reduce_scatter of shares, then an all_gather of shares. An
// all_reduce of a short block (small_call.hpp) is a direct exchange of whole blocks, and each rank
// combines all of them.
//
// Elements that one rank sends, for P ranks: (P-1) n in a reduce_scatter to pieces of n,
// 2 (P-1)/P n in an all_reduce of n, and (P-1) n in a short one.
//
// Source: Rabenseifner, "Optimization of collective reduction operations", 2004.

#include <cstddef>

#include "cubist/comm/mpi/collectives/exchange.hpp"
#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"
#include "cubist/comm/mpi/transport/reduction.hpp"
#include "cubist/comm/small_call.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Sends send(peer) to every peer, and receives `size` bytes from each peer into the workspace, in
/// the order of the ranks.
template <class Send>
void exchange_to_combine(MpiMessages& messages, MpiReduction& reduction, Send send,
                         std::size_t size)
{
  const MpiContext& context = messages.context();
  auto* const workspace = reduction.workspace(static_cast<std::size_t>(context.size - 1) * size);
  for (int i = 1; i < context.size; ++i)
  {
    const int peer = neighbour(context, i);
    const auto block = static_cast<std::size_t>(peer < context.rank ? peer : peer - 1);
    messages.receive(peer, {workspace + block * size, size});
  }
  for (int i = 1; i < context.size; ++i)
    messages.send(neighbour(context, -i), send(neighbour(context, -i)));
}

inline void start_reduce_scatter(MpiMessages& messages, const MpiBlocks& blocks,
                                 MpiReduction& reduction)
{
  if (messages.context().size == 1) return copy_bytes(blocks.send_block(), blocks.receive_block());
  exchange_to_combine(
      messages, reduction, [&](int peer) { return blocks.send_piece(peer); }, blocks.bytes());
}

/// Whether the ranks of an all_reduce exchange whole blocks.
[[nodiscard]] inline bool exchanges_blocks(const MpiContext& context, const MpiBlocks& blocks)
{
  return sends_blocks(blocks.bytes(), static_cast<std::size_t>(context.size));
}

inline void start_all_reduce(MpiMessages& messages, const MpiBlocks& blocks,
                             MpiReduction& reduction)
{
  const MpiContext& context = messages.context();
  if (context.size == 1) return copy_bytes(blocks.send_block(), blocks.receive_block());
  if (exchanges_blocks(context, blocks))
    return exchange_to_combine(
        messages, reduction, [&](int) { return blocks.send_block(); }, blocks.bytes());
  exchange_to_combine(
      messages, reduction, [&](int peer) { return blocks.send_share(peer); },
      blocks.send_share(context.rank).size());
}

/// Combines what has been received with this rank's part of the same elements.
inline void combine_received(const MpiContext& context, ConstBytes mine, Bytes out,
                             MpiReduction& reduction)
{
  reduction.combine_workspace(static_cast<std::size_t>(context.size - 1),
                              static_cast<std::size_t>(context.rank), mine, out);
}

/// Combines this rank's piece once all messages have arrived.
inline void finish_reduce_scatter(const MpiContext& context, const MpiBlocks& blocks,
                                  MpiReduction& reduction)
{
  combine_received(context, blocks.send_piece(context.rank), blocks.receive_block(), reduction);
}

/// Combines this rank's share once all messages have arrived, and starts the all_gather of shares;
/// or combines the whole block, and starts nothing.
inline void continue_all_reduce(MpiMessages& messages, const MpiBlocks& blocks,
                                MpiReduction& reduction)
{
  const MpiContext& context = messages.context();
  if (exchanges_blocks(context, blocks))
    return combine_received(context, blocks.send_block(), blocks.receive_block(), reduction);
  const Bytes mine = blocks.receive_share(context.rank);
  combine_received(context, blocks.send_share(context.rank), mine, reduction);
  messages.clear();
  exchange(
      messages, [&](int) { return ConstBytes{mine}; },
      [&](int peer) { return blocks.receive_share(peer); });
}

}  // namespace cubist::CUBIST_ABI::detail
