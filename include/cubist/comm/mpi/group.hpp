// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One MPI communicator of one process: its context (mpi/transport/context.hpp), the nodes of its
// ranks, and, where all ranks are on one node, the memory that they share.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/mpi/cores.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/pending.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/comm/mpi/returned_ranks.hpp"
#include "cubist/comm/mpi/shutdown.hpp"
#include "cubist/comm/mpi/transport/context.hpp"
#include "cubist/comm/mpi/transport/shared_barrier.hpp"
#include "cubist/comm/mpi/transport/tags.hpp"
#include "cubist/comm/mpi/transport/topology.hpp"
#include "cubist/comm/mpi/window.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/small_call.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/memory/futex_event.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::CUBIST_ABI
{

/// How ranks exchange data. All ranks have the same options.
struct MpiOptions
{
  /// The longest message between nodes, in bytes. Over TCP, messages below Open MPI's eager limit
  /// of 64 KiB use a link in both directions at once, longer ones mostly do not.
  std::size_t remote_message_bytes = 65'000;
  /// The longest message within a node, in bytes.
  std::size_t local_message_bytes = std::size_t{1} << 30;
  /// Whether calls between nodes advance while their rank computes; if not, `start` completes them.
  bool overlap = true;
  /// Whether ranks of one node read each other's memory instead of sending messages.
  bool share_memory = true;
};

namespace detail
{

class MpiGroup : public std::enable_shared_from_this<MpiGroup>
{
 public:
  using Member = MpiPendingCall;
  template <class Communicator, class T>
  using Window = MpiWindow<Communicator, T>;

  /// @param id the number of the communicator in its launch
  /// @param on_one_node whether all ranks are known to be on one node
  MpiGroup(std::shared_ptr<MpiProgress> progress, boost::mpi::communicator comm,
           const MpiOptions& options, std::uint64_t id = 1, bool on_one_node = false)
      : progress_{std::move(progress)},
        comm_{std::move(comm)},
        options_{options},
        counts_{progress_->call_counts(id)}
  {
    const auto topology = on_one_node ? nullptr : find_nodes();

    const std::size_t longest =
        remote_ ? options.remote_message_bytes : options.local_message_bytes;
    constexpr std::size_t widest_element = 16;
    context_ = {comm_,
                comm_.rank(),
                comm_.size(),
                std::max<std::size_t>(longest / widest_element, 1) * widest_element,
                MpiTags::of_mpi(),
                progress_->comm(),
                progress_->has_limit(),
                topology,
                nullptr,
                id};
    if (!remote_ && options.share_memory) share_memory();
  }
  MpiGroup(MpiGroup&&) = delete;
  ~MpiGroup()
  {
    const bool is_broken =
        progress_->with_failures([](const MpiFailures& f) { return f.is_broken(); });
    if (std::uncaught_exceptions() > 0 || is_broken)
    {
      leak_communicator(std::move(comm_));
      if (slot_) slot_->leak();
    }
    else
      progress_->with_returned_ranks([&](MpiReturnedRanks& returned, const MpiFailures&) {
        returned.retire(std::exchange(comm_, {}));
      });
  }

  [[nodiscard]] const MpiContext& context() const { return context_; }
  [[nodiscard]] int size() const { return context_.size; }
  /// Whether the ranks are on several nodes.
  [[nodiscard]] bool remote() const { return remote_; }
  /// Whether the ranks share memory.
  [[nodiscard]] bool exposes() const { return !arenas_.empty(); }
  /// The arena of a rank, as this process maps it.
  /// @pre exposes()
  [[nodiscard]] std::byte* arena(int rank) const { return arenas_[static_cast<std::size_t>(rank)]; }
  /// The number of cores on which the ranks together may run.
  [[nodiscard]] int cores() const { return cores_; }
  [[nodiscard]] WindowBufferPool& window_buffers() { return window_buffers_; }

  /// Starts this rank's next call.
  template <Element T>
  MpiPendingCall& start(int, const Call<T>& call)
  {
    const auto number = counts_.count(call.kind, call.peer, context_.size);
    const int tag = is_message(call.kind) ? 0 : context_.tags.tag(++calls_, call);
    return progress_->start(context_, tag, remote_, call, number, needs_helper(call));
  }
  void wait(MpiPendingCall& call) { progress_->wait(call); }
  bool test(MpiPendingCall& call) { return progress_->test(call); }
  void release(MpiPendingCall& call) { progress_->release(call); }
  void abandon(MpiPendingCall& call) { progress_->release(call); }
  /// Whether a collective must be complete when `start` returns.
  [[nodiscard]] bool completes_at_start() const { return remote_ && !options_.overlap; }

  /// Returns the group of all ranks with this rank's colour, ordered by key, then by rank, and the
  /// position of this rank in it.
  std::pair<std::shared_ptr<MpiGroup>, int> split(int rank, int colour, int key)
  {
    // Once all ranks have called split, no rank waits for another to forward messages. This barrier
    // has a different count from the program's barriers, so it is a mismatch if one rank calls
    // barrier where another calls split.
    PendingCall{shared_from_this(), start(rank, Call<int>{CallKind::barrier, {}, {}, 1})}.wait();
    auto group = progress_->call_blocking_mpi("split", [&] {
      return std::make_shared<MpiGroup>(progress_, comm_.split(colour, key), options_,
                                        communicator_id(context_.id, ++splits_, colour), !remote_);
    });
    const int position = group->context_.rank;
    return {std::move(group), position};
  }

 private:
  /// Whether peers may wait for this rank to advance a call. All messages of a short all_reduce
  /// leave when it starts, if the ranks are connected, as they are after the first one.
  template <Element T>
  [[nodiscard]] bool needs_helper(const Call<T>& call)
  {
    const bool is_short =
        call.kind == CallKind::all_reduce &&
        sends_blocks(call.count * sizeof(T), static_cast<std::size_t>(context_.size));
    return !is_short || !std::exchange(connected_, true);
  }

  /// Sets `remote_`, and returns the topology if the ranks are on several nodes.
  [[nodiscard]] std::shared_ptr<const MpiTopology> find_nodes()
  {
    MPI_Comm node = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type", "the creation of a communicator");
    int node_size = 0;
    MPI_Comm_size(node, &node_size);
    remote_ = node_size < comm_.size();
    auto topology = remote_ ? make_topology(node) : nullptr;
    MPI_Comm_free(&node);
    return topology;
  }

  /// Gives each node the number of its lowest rank.
  [[nodiscard]] std::shared_ptr<const MpiTopology> make_topology(MPI_Comm node) const
  {
    int lowest = comm_.rank();
    mpi_check(MPI_Bcast(&lowest, 1, MPI_INT, 0, node), "MPI_Bcast",
              "the exchange of the ranks of a node");
    std::vector<int> node_ids(static_cast<std::size_t>(comm_.size()));
    mpi_check(MPI_Allgather(&lowest, 1, MPI_INT, node_ids.data(), 1, MPI_INT, comm_),
              "MPI_Allgather", "the exchange of the nodes of a communicator");
    return std::make_shared<const MpiTopology>(node_ids, comm_.rank());
  }

  /// Where a rank's shared memory, flag slot and event are.
  struct SharedObjects
  {
    ArenaName arena;
    std::uint64_t slot = 0;  // offsets in the arena
    std::uint64_t event = 0;
    std::uint64_t barriers = 0;
  };

  /// Maps the arenas of all ranks, and sets up their shared-memory barrier, if every rank can.
  void share_memory()
  {
    constexpr int bytes = sizeof(SharedObjects);
    const auto& arena = SharedArena::mine();
    const FlagSlot* const slot = slot_.emplace().get();
    const FutexEvent* const event = FlagSlotHandle::process_event();
    SharedObjects mine{.arena = arena.name()};
    int can_share = slot != nullptr && event != nullptr ? 1 : 0;
    if (can_share == 1)
      mine = {arena.name(), arena.offset(slot), arena.offset(event), slot->arrived};
    std::vector<SharedObjects> all(static_cast<std::size_t>(comm_.size()));
    mpi_check(MPI_Allgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_),
              "MPI_Allgather", "the exchange of the arenas of a node");
    std::vector<MpiSharedBarrier::Rank> ranks;
    for (const auto& rank : all)
    {
      auto* const peer_arena = arenas_.emplace_back(SharedArena::of(rank.arena));
      if (peer_arena == nullptr)
        can_share = 0;
      else
        ranks.push_back({reinterpret_cast<FlagSlot*>(peer_arena + rank.slot),
                         reinterpret_cast<FutexEvent*>(peer_arena + rank.event), rank.barriers});
    }
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &can_share, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce",
              "the exchange of the arenas of a node");
    cores_ = Cores::of(comm_).node;
    if (can_share == 0) return arenas_.clear();
    barrier_.emplace(std::move(ranks), comm_.rank());
    context_.shared_barrier = &*barrier_;
  }

  std::shared_ptr<MpiProgress> progress_;
  boost::mpi::communicator comm_;
  MpiOptions options_;
  MpiContext context_;
  bool remote_ = false;
  std::int64_t calls_ = 0;
  bool connected_ = false;  // a short all_reduce has started
  CallCounts& counts_;  // only for diagnosis, because communicator ids are hashes and may collide
  std::uint64_t splits_ = 0;
  std::vector<std::byte*> arenas_;
  std::optional<FlagSlotHandle> slot_;
  std::optional<MpiSharedBarrier> barrier_;
  int cores_ = 1;
  WindowBufferPool window_buffers_;
};

}  // namespace detail

}  // namespace cubist::CUBIST_ABI
