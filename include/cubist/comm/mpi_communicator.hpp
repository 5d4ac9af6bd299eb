// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that are MPI processes: the communicator, and its requests. Boost.MPI owns and splits MPI's
// communicators; the data travels in messages of our own (mpi_call.hpp), without serialisation.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/mpi/communicator.hpp>
#include <mpi.h>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/lender.hpp"
#include "cubist/comm/mpi_cores.hpp"
#include "cubist/comm/mpi_loan.hpp"
#include "cubist/comm/mpi_messages.hpp"
#include "cubist/comm/mpi_world.hpp"
#include "cubist/core/scalar.hpp"

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
  MpiGroup(std::shared_ptr<MpiWorld> world, boost::mpi::communicator comm,
           const MpiOptions& options)
      : world_{std::move(world)}, comm_{std::move(comm)}, options_{options}
  {
    MPI_Comm node = MPI_COMM_NULL;
    mpi_check(MPI_Comm_split_type(comm_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node),
              "MPI_Comm_split_type", "a communicator");
    int neighbours = 0;
    MPI_Comm_size(node, &neighbours);
    MPI_Comm_free(&node);
    remote_ = neighbours < comm_.size();

    const std::size_t longest =
        remote_ ? options.remote_message_bytes : options.local_message_bytes;
    constexpr std::size_t widest_element = 16;
    place_ = {comm_,
              comm_.rank(),
              comm_.size(),
              std::max<std::size_t>(longest / widest_element, 1) * widest_element,
              MpiTags::of_mpi(),
              world_->comm(),
              world_->has_limit()};
    if (!remote_ && options.share_memory) find_arenas();
  }
  MpiGroup(const MpiGroup&) = delete;
  MpiGroup& operator=(const MpiGroup&) = delete;
  ~MpiGroup()
  {
    if (std::uncaught_exceptions() > 0 || world_->broken())
      keep_for_ever(std::move(comm_));
    else
      world_->exclusively([&] { comm_ = {}; });
  }

  [[nodiscard]] MpiWorld& world() const { return *world_; }
  [[nodiscard]] const MpiPlace& place() const { return place_; }
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
  void find_arenas()
  {
    constexpr int bytes = sizeof(ArenaName);
    const auto mine = SharedArena::mine().name();
    std::vector<ArenaName> names(static_cast<std::size_t>(comm_.size()));
    mpi_check(MPI_Allgather(&mine, bytes, MPI_BYTE, names.data(), bytes, MPI_BYTE, comm_),
              "MPI_Allgather", "the arenas of a node");
    int reached = SharedArena::mine().exists() ? 1 : 0;
    for (const auto& name : names)
    {
      arenas_.push_back(SharedArena::of(name));
      if (arenas_.back() == nullptr) reached = 0;
    }
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &reached, 1, MPI_INT, MPI_MIN, comm_), "MPI_Allreduce",
              "the arenas of a node");
    if (reached == 0) arenas_.clear();
    cores_ = Cores::of(comm_).together;
  }

  std::shared_ptr<MpiWorld> world_;
  boost::mpi::communicator comm_;
  MpiOptions options_;
  MpiPlace place_;
  bool remote_ = false;
  std::int64_t calls_ = 0;
  std::vector<std::byte*> arenas_;
  int cores_ = 1;
  LoanRooms loan_rooms_;
};

}  // namespace detail

/// A call of an MpiCommunicator under way.
class MpiRequest
{
 public:
  MpiRequest(std::shared_ptr<detail::MpiGroup> group, detail::MpiMember& member)
      : group_{std::move(group)}, member_{&member}
  {
  }
  MpiRequest(MpiRequest&& other) noexcept
      : group_{std::move(other.group_)}, member_{std::exchange(other.member_, nullptr)}
  {
  }
  MpiRequest& operator=(MpiRequest&& other) noexcept
  {
    std::swap(group_, other.group_);
    std::swap(member_, other.member_);
    return *this;
  }
  ~MpiRequest() { leave(); }

  void wait()
  {
    if (member_ == nullptr) return;
    group_->world().wait(*member_);
    leave();
  }

  bool test()
  {
    if (member_ != nullptr && group_->world().test(*member_)) leave();
    return member_ == nullptr;
  }

 private:
  void leave()
  {
    if (member_ != nullptr) group_->world().leave(*std::exchange(member_, nullptr));
  }

  std::shared_ptr<detail::MpiGroup> group_;
  detail::MpiMember* member_;
};

class MpiCommunicator : public Collectives<MpiCommunicator>
{
 public:
  explicit MpiCommunicator(std::shared_ptr<detail::MpiGroup> group) : group_{std::move(group)} {}

  [[nodiscard]] int rank() const { return group_->place().rank; }
  [[nodiscard]] int size() const { return group_->place().size; }
  /// Whether its ranks are on more than one node.
  [[nodiscard]] bool remote() const { return group_->remote(); }

  template <Element T>
  [[nodiscard]] MpiRequest start(const Call<T>& call)
  {
    MpiRequest request{group_, group_->start(call)};
    const bool message =
        call.collective == Collective::send || call.collective == Collective::receive;
    if (group_->at_once() && !message) request.wait();
    return request;
  }

  [[nodiscard]] bool lends() const { return !group_->arenas().empty(); }
  [[nodiscard]] int cores() const { return group_->cores(); }
  template <ElementRange Data>
  [[nodiscard]] auto lend(const Data& mine)
  {
    return lend(mine, std::size(mine));
  }
  template <ElementRange Data>
  [[nodiscard]] auto lend(const Data& mine, std::size_t size)
  {
    using T = const ElementOf<const Data>;
    return MpiLoan<MpiCommunicator, T>{*this, detail::read_span(mine), size};
  }
  template <Element T>
  [[nodiscard]] auto lend_to_write(std::span<T> mine)
  {
    return MpiLoan<MpiCommunicator, T>{*this, mine, mine.size()};
  }
  /// What a loan needs of its communicator: the memory of a rank, and rooms.
  /// @pre lends()
  [[nodiscard]] std::byte* arena(int rank) const
  {
    return group_->arenas()[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] detail::LoanRooms& loan_rooms() const { return group_->loan_rooms(); }

  /// The ranks that give the same colour, ordered by key, then by rank.
  [[nodiscard]] MpiCommunicator split(int colour, int key)
  {
    // Another one than the program's, should that call it where other ranks split.
    start(Call<int>{Collective::barrier, {}, {}, 1}).wait();
    return MpiCommunicator{group_->split(colour, key)};
  }

 private:
  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(Lender<MpiCommunicator>);

}  // namespace cubist
