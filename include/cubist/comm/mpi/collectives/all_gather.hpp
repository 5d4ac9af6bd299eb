// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The all_gather of ranks on several nodes (mpi/transport/topology.hpp): a block enters each other
// node once, through one leader, which forwards each of the block's messages to the rest of its
// node as soon as the message arrives.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Posts the messages. All messages between two ranks have one tag, so both post them in the same
/// order. Returns how many of the first messages this rank must forward.
/// @pre messages.context().topology
[[nodiscard]] inline std::size_t gather_over_nodes(MpiMessages& messages, const MpiBlocks& blocks)
{
  const MpiContext& context = messages.context();
  const MpiTopology& topology = *context.topology;
  for (const auto& [_, source] : topology.forwarded())
    messages.receive(source, blocks.receive_piece(source));
  const std::size_t to_forward = messages.count();
  const auto is_forwarded = [&](int source) {
    return std::ranges::any_of(topology.forwarded(),
                               [&](const auto& f) { return f.source == source; });
  };
  for (int i = 1; i < context.size; ++i)
    if (const int source = neighbour(context, -i);
        topology.sends_directly(source, context.rank) && !is_forwarded(source))
      messages.receive(source, blocks.receive_piece(source));
  for (const auto& [leader, source] : topology.forwarded_by_peers())
    messages.receive(leader, blocks.receive_piece(source));
  for (int i = 1; i < context.size; ++i)
    if (const int peer = neighbour(context, i); topology.sends_directly(context.rank, peer))
      messages.send(peer, blocks.send_block());
  copy_bytes(blocks.send_block(), blocks.receive_piece(context.rank));
  return to_forward;
}

/// Forwards message i, one of the first `to_forward`, which has arrived.
inline void forward_in_node(std::size_t i, std::size_t to_forward, MpiMessages& messages,
                            const MpiBlocks& blocks)
{
  const MpiTopology& topology = *messages.context().topology;
  const auto& forwarded = topology.forwarded();
  const std::size_t messages_a_block = to_forward / forwarded.size();
  const auto block = blocks.receive_piece(forwarded[i / messages_a_block].source);
  for (const int peer : topology.node_peers())
    messages.send(peer, messages.part(block, i % messages_a_block));
}

/// Returns the ranks whose blocks the `leaders` of this rank's node forward.
[[nodiscard]] inline std::vector<int> forwarded_sources(const MpiTopology& topology,
                                                        const std::vector<int>& leaders)
{
  std::vector<int> sources;
  for (const auto& [leader, source] : topology.forwarded_by_peers())
    if (std::find(leaders.begin(), leaders.end(), leader) != leaders.end())
      sources.push_back(source);
  return sources;
}

}  // namespace cubist::CUBIST_ABI::detail
