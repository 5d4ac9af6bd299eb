// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's part in one call, as messages between pairs of ranks. MPI's own collectives either do
// not advance while a rank computes, or choose the order of a sum themselves.
//
//   all_to_all, gather, scatter          collectives/exchange.hpp: direct exchange
//   all_gather                           the same on one node, else collectives/all_gather.hpp
//   reduce_scatter, all_reduce           collectives/reduce_scatter.hpp
//   broadcast, reduce                    collectives/chain.hpp: a pipelined chain
//   barrier, expose                      shared_barrier.hpp; without shared memory, a barrier by
//                                        transport/messages.hpp, and a direct exchange
//
// Where ranks share memory, a shared barrier also carries any collective in which every rank
// receives from every other, if its blocks are small (small_call.hpp).

#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/mpi/collectives/all_gather.hpp"
#include "cubist/comm/mpi/collectives/chain.hpp"
#include "cubist/comm/mpi/collectives/exchange.hpp"
#include "cubist/comm/mpi/collectives/reduce_scatter.hpp"
#include "cubist/comm/mpi/transport/blocks.hpp"
#include "cubist/comm/mpi/transport/messages.hpp"
#include "cubist/comm/mpi/transport/reduction.hpp"
#include "cubist/comm/mpi/transport/signature.hpp"
#include "cubist/comm/small_call.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiCall
{
 public:
  /// Posts the messages that do not depend on others; all messages of the call have `tag`.
  void post(const MpiContext& context, int tag, const ErasedCall& call)
  {
    blocks_ = {call, context.size};
    reduction_.begin(call);
    to_forward_ = 0;
    combined_ = false;
    messages_.begin(context, tag, to_string(call.kind));
    const auto ranks = static_cast<std::size_t>(context.size);
    uses_shared_barrier_ = context.shared_barrier != nullptr && can_use_barrier(ranks);
    if (uses_shared_barrier_)
      barrier_.begin(*context.shared_barrier, tag,
                     {call.send, call.kind == CallKind::barrier
                                     ? 0
                                     : bytes_to_copy(call.kind, call.bytes(), ranks)});
    else
      post_messages();
  }

  /// Advances messages; returns whether the call is complete.
  /// @throws CommunicationError for MPI's errors, CollectiveMismatch
  bool advance()
  {
    if (uses_shared_barrier_) return advance_barrier();
    const auto on_complete = [this](std::size_t i) {
      if (i < to_forward_) forward(i);
    };
    do
      if (!messages_.advance(on_complete)) return false;
    while (begin_next_phase());
    return true;
  }

  /// Whether the call uses the shared barrier, at which the last rank to arrive notifies the
  /// others.
  [[nodiscard]] bool uses_shared_barrier() const { return uses_shared_barrier_; }

  /// Cancels messages that MPI has not matched; the rest stays pending.
  void cancel() noexcept { messages_.cancel(); }
  /// How many messages are still pending after `cancel`; none of them is forwarded.
  std::size_t count_pending() noexcept { return messages_.count_pending(); }
  /// Leaves pending messages to MPI, so that the object can start another call.
  void release() noexcept { messages_.release(); }

  /// Returns "reduce_scatter on rank 3 of 8".
  [[nodiscard]] std::string describe() const { return messages_.describe(); }

  /// Returns "all_reduce of 4 double by sum on ranks {0, 1}".
  [[nodiscard]] std::string text() const { return detail::text(messages_.context(), blocks_.call); }

  [[nodiscard]] const MpiContext& context() const { return messages_.context(); }
  [[nodiscard]] CallKind kind() const { return blocks_.call.kind; }

  /// The ranks of the communicator without which the call cannot complete.
  [[nodiscard]] std::vector<int> needed_ranks()
  {
    const auto from = pending_sources();
    std::set<int> ranks{from.begin(), from.end()};
    for (const auto& more : {sources_behind(from), messages_.pending_peers(false)})
      ranks.insert(more.begin(), more.end());
    return {ranks.begin(), ranks.end()};
  }

  /// Names the ranks that the call waits for: "; nothing received from ranks {2}".
  [[nodiscard]] std::string describe_pending()
  {
    const auto list = [this](const std::vector<int>& ranks) {
      return rank_list(job_ranks(messages_.context(), ranks));
    };
    const auto from = pending_sources();
    const auto to = messages_.pending_peers(false);
    std::string t;
    if (!from.empty()) t += "; nothing received from ranks " + list(from);
    if (const auto sources = sources_behind(from); !from.empty() && !sources.empty())
      t += ", which forward the data of ranks " + list(sources);
    if (!to.empty()) t += "; ranks " + list(to) + " have not received what this rank sent";
    return t;
  }

  /// @throws CollectiveMismatch if a peer called something else
  void check_for_mismatch() const
  {
    const auto& context = messages_.context();
    const auto [peer, tag] = messages_.find_mismatch();
    if (peer >= 0) throw mismatch_error(context, blocks_.call, peer, tag);
    if (context.shared_barrier == nullptr || messages_.tag() == 0) return;
    int barrier_tag = 0;
    const int rank = context.shared_barrier->find_mismatch([&](const BarrierPayload& payload) {
      barrier_tag = static_cast<int>(payload[0]);
      return context.tags.mismatch(barrier_tag, messages_.tag());
    });
    if (rank >= 0) throw mismatch_error(context, blocks_.call, rank, barrier_tag);
  }

 private:
  [[nodiscard]] bool can_use_barrier(std::size_t ranks) const
  {
    const CallKind kind = blocks_.call.kind;
    return kind == CallKind::barrier ||
           (kind == CallKind::expose && blocks_.bytes() == MpiSharedBarrierCall::short_bytes) ||
           (ranks > 1 && is_small(kind, blocks_.bytes(), ranks));
  }

  void post_messages()
  {
    const int root = blocks_.call.peer;
    switch (blocks_.call.kind)
    {
    case CallKind::barrier:
      return messages_.barrier();
    case CallKind::broadcast:
      to_forward_ = start_broadcast(chain(), messages_, blocks_);
      return;
    case CallKind::reduce:
      to_forward_ = start_reduce(chain(), messages_, blocks_, reduction_);
      return;
    case CallKind::all_reduce:
      return start_all_reduce(messages_, blocks_, reduction_);
    case CallKind::all_gather:
      if (messages_.context().topology && messages_.context().size > 1)
        to_forward_ = gather_over_nodes(messages_, blocks_);
      else
        gather_everywhere(messages_, blocks_);
      return;
    case CallKind::reduce_scatter:
      return start_reduce_scatter(messages_, blocks_, reduction_);
    case CallKind::all_to_all:
      return exchange_pieces(messages_, blocks_);
    case CallKind::gather:
      return gather_to(root, messages_, blocks_);
    case CallKind::scatter:
      return scatter_from(root, messages_, blocks_);
    case CallKind::send:
      return messages_.send(root, blocks_.send_block(), true);
    case CallKind::receive:
      return messages_.receive(root, blocks_.receive_block(), true);
    case CallKind::expose:
      return gather_everywhere(messages_, blocks_);
    }
  }

  /// Ends a phase whose messages are complete; returns whether the next one has more to wait for.
  bool begin_next_phase()
  {
    if (messages_.context().size == 1 || combined_) return false;
    combined_ = true;
    if (blocks_.call.kind == CallKind::reduce_scatter)
      finish_reduce_scatter(messages_.context(), blocks_, reduction_);
    if (blocks_.call.kind != CallKind::all_reduce) return false;
    continue_all_reduce(messages_, blocks_, reduction_);
    return true;
  }

  /// @throws CollectiveMismatch
  bool advance_barrier()
  {
    MpiSharedBarrierCall::Mismatch mismatch;
    if (!barrier_.advance(mismatch, [this](const auto& blocks) { receive(blocks); })) return false;
    if (mismatch.rank >= 0)
      throw mismatch_error(messages_.context(), blocks_.call, mismatch.rank, mismatch.tag);
    return true;
  }
  /// Receives this rank's part of what all ranks have passed at a barrier.
  void receive(std::span<const std::byte* const> passed)
  {
    const auto rank = static_cast<std::size_t>(messages_.context().rank);
    const std::size_t bytes = blocks_.bytes();
    switch (blocks_.call.kind)
    {
    case CallKind::all_reduce:
      return reduction_.combine(passed, 0, blocks_.receive_block());
    case CallKind::reduce_scatter:
      return reduction_.combine(passed, rank * blocks_.call.count, blocks_.receive_block());
    case CallKind::all_gather:
    case CallKind::expose:
      for (std::size_t i = 0; i < passed.size(); ++i)
        copy_bytes({passed[i], bytes}, blocks_.receive_piece(static_cast<int>(i)));
      return;
    case CallKind::all_to_all:
      for (std::size_t i = 0; i < passed.size(); ++i)
        copy_bytes({passed[i] + rank * bytes, bytes}, blocks_.receive_piece(static_cast<int>(i)));
      return;
    default:  // a barrier
      return;
    }
  }

  /// Forwards message i, which has arrived.
  void forward(std::size_t i)
  {
    if (blocks_.call.kind == CallKind::all_gather)
      return forward_in_node(i, to_forward_, messages_, blocks_);
    if (blocks_.call.kind == CallKind::broadcast)
      return forward_broadcast(i, chain(), messages_, blocks_);
    combine_and_forward(i, chain(), messages_, blocks_, reduction_);
  }

  /// The ranks from which this one has received nothing, or only a part.
  [[nodiscard]] std::vector<int> pending_sources()
  {
    return uses_shared_barrier_ ? barrier_.missing_ranks() : messages_.pending_peers(true);
  }

  [[nodiscard]] MpiChain chain() const
  {
    return {messages_.context(), blocks_.call.kind, blocks_.call.peer};
  }

  /// The ranks whose data this rank receives through the ranks `from`.
  [[nodiscard]] std::vector<int> sources_behind(const std::vector<int>& from) const
  {
    const auto& context = messages_.context();
    const CallKind c = blocks_.call.kind;
    if (c == CallKind::broadcast || c == CallKind::reduce)
      return chain().forwarded_sources(context.rank);
    if (c == CallKind::all_gather && context.topology)
      return forwarded_sources(*context.topology, from);
    return {};
  }

  MpiBlocks blocks_;
  MpiReduction reduction_;
  MpiMessages messages_;
  std::size_t to_forward_ = 0;  // how many of the first messages are forwarded
  bool combined_ = false;       // a reduction's messages have arrived and are combined
  MpiSharedBarrierCall barrier_;
  bool uses_shared_barrier_ = false;  // instead of messages
};

}  // namespace cubist::CUBIST_ABI::detail
