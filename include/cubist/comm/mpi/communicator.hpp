// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that are MPI processes: the communicator, and its requests. Boost.MPI owns and splits MPI's
// communicators; the data travels in messages of our own (mpi/call.hpp), without serialisation.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/mpi/group.hpp"
#include "cubist/comm/mpi/window.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist
{

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

  [[nodiscard]] bool exposes() const { return !group_->arenas().empty(); }
  [[nodiscard]] int cores() const { return group_->cores(); }
  template <ElementRange Data>
  [[nodiscard]] auto expose(const Data& mine)
  {
    return expose(mine, std::size(mine));
  }
  template <ElementRange Data>
  [[nodiscard]] auto expose(const Data& mine, std::size_t size)
  {
    using T = const ElementOf<const Data>;
    return MpiWindow<MpiCommunicator, T>{*this, detail::read_span(mine), size};
  }
  template <Element T>
  [[nodiscard]] auto expose_writable(std::span<T> mine)
  {
    return MpiWindow<MpiCommunicator, T>{*this, mine, mine.size()};
  }
  /// What a window needs of its communicator: the memory of a rank, and rooms.
  /// @pre exposes()
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

static_assert(ExposesMemory<MpiCommunicator>);

}  // namespace cubist
