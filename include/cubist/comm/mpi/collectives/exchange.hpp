// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Direct exchange: all_to_all, gather, scatter and an all_gather within one node. Every pair of
// ranks exchanges its pieces, all posted at once.
//
// Elements that one rank sends, for P ranks and pieces of n: (P-1) n in all_to_all and all_gather;
// n in gather, except the root, which sends none; in scatter, only the root sends, (P-1) n.

#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Sends send(peer) to every peer, and receives what the peer sends into receive(peer).
template <class Send, class Receive>
void exchange(MpiMessages& messages, Send send, Receive receive)
{
  const MpiContext& context = messages.context();
  for (int i = 1; i < context.size; ++i)
    messages.receive(neighbour(context, -i), receive(neighbour(context, -i)));
  for (int i = 1; i < context.size; ++i)
    messages.send(neighbour(context, i), send(neighbour(context, i)));
  copy_bytes(send(context.rank), receive(context.rank));
}

inline void exchange_pieces(MpiMessages& messages, const MpiBlocks& blocks)
{
  exchange(
      messages, [&](int peer) { return blocks.send_piece(peer); },
      [&](int peer) { return blocks.receive_piece(peer); });
}

/// An all_gather in which every rank sends its block to all others.
inline void gather_everywhere(MpiMessages& messages, const MpiBlocks& blocks)
{
  exchange(
      messages, [&](int) { return blocks.send_block(); },
      [&](int peer) { return blocks.receive_piece(peer); });
}

inline void gather_to(int root, MpiMessages& messages, const MpiBlocks& blocks)
{
  const bool is_root = messages.context().rank == root;
  exchange(
      messages, [&](int peer) { return peer == root ? blocks.send_block() : ConstBytes{}; },
      [&](int peer) { return is_root ? blocks.receive_piece(peer) : Bytes{}; });
}

inline void scatter_from(int root, MpiMessages& messages, const MpiBlocks& blocks)
{
  const bool is_root = messages.context().rank == root;
  exchange(
      messages, [&](int peer) { return is_root ? blocks.send_piece(peer) : ConstBytes{}; },
      [&](int peer) { return peer == root ? blocks.receive_block() : Bytes{}; });
}

}  // namespace cubist::CUBIST_ABI::detail
