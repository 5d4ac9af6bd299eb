// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of a group of ranks, and windows of ranks in one process, which give access to
// each rank's block in place.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A window of ranks in one process.
/// @tparam Group a RankGroup
/// @tparam T const, unless peers may write to the blocks
template <class Group, class T>
class GroupWindow
{
 public:
  /// Opens the window for `expose` and `expose_writable`; collective.
  template <class C>
  GroupWindow(const C& world, std::span<T> mine, std::size_t count)
      : group_{world.group().get()},
        member_{&group_->start(world.rank(), expose_call(mine, count))},
        count_{count},
        request_{world.group(), *member_}
  {
  }

  [[nodiscard]] std::span<T> operator[](int rank)
  {
    group_->wait_open(*member_);
    const auto* begin = member_->call->members[group_->place(rank)].send;
    return {reinterpret_cast<T*>(const_cast<std::byte*>(begin)), count_};
  }
  void close() { group_->close(*member_); }
  void wait() { request_.wait(); }

 private:
  Group* group_;  // the request keeps it alive
  typename Group::Member* member_;
  std::size_t count_;
  detail::PendingCall<Group> request_;
};

/// A group that can move its ranks to other cores.
template <class Group>
concept SpreadsRanks = requires(Group& group)
{
  group.spread_over_cores(0, 1);
};

/// The communicator of a group.
/// @tparam Group a RankGroup or an MpiGroup
template <class Group>
class GroupCommunicator : public Collectives<GroupCommunicator<Group>>
{
 public:
  /// Makes the communicator of rank `rank` of a group.
  GroupCommunicator(std::shared_ptr<Group> group, int rank)
      : group_{std::move(group)},
        rank_{rank}
  {
  }
  /// Makes the communicator of this process in an MpiGroup.
  explicit GroupCommunicator(std::shared_ptr<Group> group)
      : group_{std::move(group)},
        rank_{group_->context().rank}
  {
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return group_->size(); }
  [[nodiscard]] bool remote() const { return group_->remote(); }

  template <Element T>
  [[nodiscard]] detail::PendingCall<Group> start(const Call<T>& call)
  {
    detail::PendingCall<Group> request{group_, group_->start(rank_, call)};
    if (group_->completes_at_start() && !is_message(call.kind)) request.wait();
    return request;
  }

  [[nodiscard]] bool exposes() const { return group_->exposes(); }
  [[nodiscard]] int cores() const { return group_->cores(); }
  /// Moves this rank to another core if that has fewer of the ranks that compute (window.hpp).
  void spread_over_cores(int workers) const requires SpreadsRanks<Group>
  {
    group_->spread_over_cores(rank_, workers);
  }
  /// Opens a window on `mine`. The longest block of any rank has `size` elements.
  template <class T>
  [[nodiscard]] auto open(std::span<T> mine, std::size_t size)
  {
    return typename Group::template Window<GroupCommunicator, T>{*this, mine, size};
  }
  /// The group, for windows.
  [[nodiscard]] const std::shared_ptr<Group>& group() const { return group_; }
  /// The shared-memory arena of a rank, which all ranks of an MpiCommunicator map.
  /// @pre exposes()
  [[nodiscard]] auto* arena(int rank) const { return group_->arena(rank); }

  /// Returns a communicator of the ranks that pass the same colour, ordered by key, then by rank.
  [[nodiscard]] GroupCommunicator split(int colour, int key)
  {
    auto [group, rank] = group_->split(rank_, colour, key);
    return {std::move(group), rank};
  }
  /// Returns a communicator of the ranks with this rank's colour, in their present order; rank r
  /// has colour_of(r).
  template <class F>
  requires requires(Group& g, F f) { g.split_by(0, f); }
  [[nodiscard]] GroupCommunicator split_by(F colour_of)
  {
    auto [group, rank] = group_->split_by(rank_, colour_of);
    return {std::move(group), rank};
  }

 private:
  std::shared_ptr<Group> group_;
  int rank_;
};

}  // namespace cubist::CUBIST_ABI
