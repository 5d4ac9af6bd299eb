// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One MPI communicator of one process: where its messages travel (mpi/context.hpp), which of its
// ranks are together on a node, and whether they read each other's memory.

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
#include "cubist/comm/mpi/messages.hpp"
#include "cubist/comm/mpi/progress.hpp"
#include "cubist/comm/mpi/shared_barrier.hpp"
#include "cubist/comm/mpi/topology.hpp"
#include "cubist/comm/mpi/window.hpp"
#include "cubist/memory/futex_event.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist
{

/// How messages travel; the same on all ranks.
struct MpiOptions
{
  /// The longest message between nodes, in bytes. Over TCP, messages below Open MPI's eager limit
  /// of 64 KiB use a link in both directions at once, longer ones mostly do not.
  std::size_t remote_message_bytes = 65'000;
  /// The longest message within a node, in bytes.
  std::size_t local_message_bytes = std::size_t{1} << 30;
  /// Whether calls between nodes move on while their rank computes; if not, `start` completes them.
  bool overlap = true;
  /// Whether ranks of one node read each other's memory where that saves messages.
  bool share_memory = true;
};

namespace detail
{

/// Keeps a communicator that may have messages under way, as a failure leaves them. Were it freed,
/// MPI would give its number to a new one, which would get those messages.
inline void keep_for_ever(boost::mpi::communicator comm)
{
  static auto& all = *new std::vector<boost::mpi::communicator>;
  all.push_back(std::move(comm));
}

/// One MPI communicator of one process.
class MpiGroup
{
 public:
  MpiGroup(std::shared_ptr<MpiProgress> world, boost::mpi::communicator comm,
           const MpiOptions& options)
      : world_{std::move(world)}, comm_{std::move(comm)}, options_{options}
  {
    MPI_Comm node = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type", "a communicator");
    int neighbours = 0;
    MPI_Comm_size(node, &neighbours);
    remote_ = neighbours < comm_.size();
    const auto nodes = remote_ ? nodes_of(node) : nullptr;
    MPI_Comm_free(&node);

    const std::size_t longest =
        remote_ ? options.remote_message_bytes : options.local_message_bytes;
    constexpr std::size_t widest_element = 16;
    place_ = {comm_,
              comm_.rank(),
              comm_.size(),
              std::max<std::size_t>(longest / widest_element, 1) * widest_element,
              MpiTags::of_mpi(),
              world_->comm(),
              world_->has_limit(),
              nodes};
    if (!remote_ && options.share_memory) meet_neighbours();
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup()
  {
    if (std::uncaught_exceptions() > 0 || world_->broken())
    {
      keep_for_ever(std::move(comm_));
      if (seat_) seat_->keep();
    }
    else
      world_->exclusively([&] { comm_ = {}; });
  }

  [[nodiscard]] MpiProgress& world() const { return *world_; }
  [[nodiscard]] const MpiContext& place() const { return place_; }
  [[nodiscard]] bool remote() const { return remote_; }
  /// The memory of all ranks, or nothing if they don't share it.
  [[nodiscard]] const std::vector<std::byte*>& arenas() const { return arenas_; }
  /// On which all ranks run together.
  [[nodiscard]] int cores() const { return cores_; }
  [[nodiscard]] LoanRooms& loan_rooms() { return loan_rooms_; }

  template <Element T>
  MpiMember& start(const Call<T>& call)
  {
    const bool message =
        call.collective == Collective::send || call.collective == Collective::receive;
    return world_->start(place_, message ? 0 : place_.tags.tag(++calls_, call), remote_, call);
  }
  /// Whether a collective is to be complete once it is started.
  [[nodiscard]] bool at_once() const { return remote_ && !options_.overlap; }

  /// @pre every rank of the communicator is here, so none waits for another one's help
  std::shared_ptr<MpiGroup> split(int colour, int key)
  {
    return world_->exclusively("split", [&] {
      return std::make_shared<MpiGroup>(world_, comm_.split(colour, key), options_);
    });
  }

 private:
  /// A node is known by the first of its ranks here.
  [[nodiscard]] std::shared_ptr<const MpiTopology> nodes_of(MPI_Comm node) const
  {
    int first = comm_.rank();
    mpi_check(MPI_Bcast(&first, 1, MPI_INT, 0, node), "MPI_Bcast", "the ranks of a node");
    std::vector<int> of_ranks(static_cast<std::size_t>(comm_.size()));
    mpi_check(MPI_Allgather(&first, 1, MPI_INT, of_ranks.data(), 1, MPI_INT, comm_),
              "MPI_Allgather", "the nodes of a communicator");
    return std::make_shared<const MpiTopology>(of_ranks, comm_.rank());
  }

  /// What the ranks of a node tell each other, to share memory.
  struct Neighbour
  {
    ArenaName arena;
    std::uint64_t seat = 0;
    std::uint64_t bell = 0;
    std::uint64_t reached = 0;
  };

  void meet_neighbours()
  {
    constexpr int bytes = sizeof(Neighbour);
    const auto& arena = SharedArena::mine();
    const Seat* const seat = seat_.emplace().get();
    const FutexEvent* const bell = MySeat::bell();
    Neighbour mine{.arena = arena.name()};
    const bool seated = seat != nullptr && bell != nullptr;
    if (seated) mine = {arena.name(), arena.offset(seat), arena.offset(bell), seat->reached};
    std::vector<Neighbour> all(static_cast<std::size_t>(comm_.size()));
    mpi_check(MPI_Allgather(&mine, bytes, MPI_BYTE, all.data(), bytes, MPI_BYTE, comm_),
              "MPI_Allgather", "the arenas of a node");
    int reached = seated ? 1 : 0;
    std::vector<MpiSharedBarrier::Place> places;
    for (const auto& n : all)
    {
      arenas_.push_back(SharedArena::of(n.arena));
      if (arenas_.back() == nullptr)
        reached = 0;
      else
        places.push_back({reinterpret_cast<Seat*>(arenas_.back() + n.seat),
                          reinterpret_cast<FutexEvent*>(arenas_.back() + n.bell), n.reached});
    }
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce",
              "the arenas of a node");
    cores_ = Cores::of(comm_).together;
    if (reached == 0) return arenas_.clear();
    meetings_.emplace(std::move(places), comm_.rank());
    place_.meetings = &*meetings_;
  }

  std::shared_ptr<MpiProgress> world_;
  boost::mpi::communicator comm_;
  MpiOptions options_;
  MpiContext place_;
  bool remote_ = false;
  std::int64_t calls_ = 0;
  std::vector<std::byte*> arenas_;
  std::optional<MySeat> seat_;
  std::optional<MpiSharedBarrier> meetings_;
  int cores_ = 1;
  LoanRooms loan_rooms_;
};

}  // namespace detail

}  // namespace cubist
