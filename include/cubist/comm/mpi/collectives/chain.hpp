// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Broadcast and reduce along a chain of ranks, pipelined: a message that has arrived is forwarded
// while later ones are in flight.
//
//   broadcast   from the root, node by node (mpi/transport/topology.hpp), to all others
//   reduce      from the rank after the root, cyclically, to the root; each rank adds its elements
//
// Every rank sends the block once, except the last of the chain, which sends nothing.

#include <cstddef>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"
#include "cubist/comm/mpi/transport/reduction.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// The order of the ranks in the chain.
class MpiChain
{
 public:
  MpiChain(const MpiContext& context, CallKind kind, int root)
      : size_{context.size},
        first_{kind == CallKind::reduce ? (root + 1) % size_ : root},
        topology_{kind == CallKind::broadcast ? context.topology.get() : nullptr}
  {
  }

  /// The ranks before and after a rank; -1 for none.
  [[nodiscard]] int predecessor(int rank) const
  {
    if (topology_ != nullptr) return topology_->predecessor(rank, first_);
    return rank == first_ ? -1 : (rank + size_ - 1) % size_;
  }
  [[nodiscard]] int successor(int rank) const
  {
    if (topology_ != nullptr) return topology_->successor(rank, first_);
    const int next = (rank + 1) % size_;
    return next == first_ ? -1 : next;
  }

  /// The ranks before a rank's predecessor, the nearest first. The predecessor forwards their data.
  [[nodiscard]] std::vector<int> forwarded_sources(int rank) const
  {
    std::vector<int> ranks;
    for (int r = predecessor(rank); r >= 0 && (r = predecessor(r)) >= 0;) ranks.push_back(r);
    return ranks;
  }

 private:
  int size_;
  int first_;
  const MpiTopology* topology_;
};

/// Posts the first messages of a broadcast; returns how many messages this rank must forward.
[[nodiscard]] inline std::size_t start_broadcast(const MpiChain& chain, MpiMessages& messages,
                                                 const MpiBlocks& blocks)
{
  const int rank = messages.context().rank;
  const int from = chain.predecessor(rank);
  const int to = chain.successor(rank);
  if (from >= 0)
    messages.receive(from, blocks.receive_block());
  else if (to >= 0)
    messages.send(to, blocks.send_block());
  return from >= 0 && to >= 0 ? messages.count() : 0;
}

/// Forwards message i, which has arrived.
inline void forward_broadcast(std::size_t i, const MpiChain& chain, MpiMessages& messages,
                              const MpiBlocks& blocks)
{
  messages.send(chain.successor(messages.context().rank), messages.part(blocks.receive_block(), i));
}

/// Posts the first messages of a reduce; returns how many messages this rank must combine.
[[nodiscard]] inline std::size_t start_reduce(const MpiChain& chain, MpiMessages& messages,
                                              const MpiBlocks& blocks, MpiReduction& reduction)
{
  const auto& context = messages.context();
  if (context.size == 1)
  {
    copy_bytes(blocks.send_block(), blocks.receive_block());
    return 0;
  }
  const int from = chain.predecessor(context.rank);
  if (from < 0)
  {
    messages.send(chain.successor(context.rank), blocks.send_block());
    return 0;
  }
  messages.receive(from, {reduction.workspace(blocks.bytes()), blocks.bytes()});
  return messages.count();
}

/// Adds this rank's elements to message i, which has arrived, and forwards the sum.
inline void combine_and_forward(std::size_t i, const MpiChain& chain, MpiMessages& messages,
                                const MpiBlocks& blocks, MpiReduction& reduction)
{
  const int to = chain.successor(messages.context().rank);
  const Bytes all{reduction.workspace(blocks.bytes()), blocks.bytes()};
  const Bytes partial = messages.part(all, i);
  const auto offset = partial.data() - all.data();
  const Bytes sum = to >= 0 ? partial : messages.part(blocks.receive_block(), i);
  reduction.combine(partial.data(), blocks.send_block().data() + offset, sum);
  if (to >= 0) messages.send(to, sum);
}

}  // namespace cubist::CUBIST_ABI::detail
