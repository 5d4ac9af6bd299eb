// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of simulated ranks, and its windows.

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/simulated/group.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A call of a SimulatedCommunicator in flight.
using SimulatedRequest = detail::PendingCall<detail::SimulatedGroup>;

/// @tparam T const, unless peers may write to the blocks
template <class T>
class SimulatedWindow
{
 public:
  /// Collective: opened by `expose` and `expose_writable`.
  SimulatedWindow(const std::shared_ptr<detail::SimulatedGroup>& group,
                  detail::SimulatedMember& member, std::size_t count)
      : group_{group.get()}, member_{&member}, count_{count}, request_{group, member}
  {
  }

  [[nodiscard]] std::span<T> operator[](int rank)
  {
    group_->wait_open(*member_);
    const auto* begin = member_->call->members[static_cast<std::size_t>(rank)].send;
    return {reinterpret_cast<T*>(const_cast<std::byte*>(begin)), count_};
  }
  void close()
  {
    group_->wait_open(*member_);
    group_->close(*member_);
  }
  void wait()
  {
    close();
    request_.wait();
  }

 private:
  detail::SimulatedGroup* group_;  // the request keeps it alive
  detail::SimulatedMember* member_;
  std::size_t count_;
  SimulatedRequest request_;
};

/// A communicator of simulated ranks.
class SimulatedCommunicator : public Collectives<SimulatedCommunicator>
{
 public:
  /// Rank `rank` of a group.
  SimulatedCommunicator(std::shared_ptr<detail::SimulatedGroup> group, int rank)
      : group_{std::move(group)}, rank_{rank}
  {
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(group_->ranks().size()); }
  [[nodiscard]] bool remote() const { return group_->placement().top() > 0; }

  template <Element T>
  [[nodiscard]] SimulatedRequest start(const Call<T>& call)
  {
    SimulatedRequest request{group_, group_->post(rank_, call)};
    if (group_->completes_at_start() && !is_message(call.collective)) request.wait();
    return request;
  }

  [[nodiscard]] bool exposes() const { return machine().shared_memory && !remote(); }
  [[nodiscard]] int cores() const { return std::max(1, static_cast<int>(machine().cores)); }
  /// Opens a window on `mine`, one of `size` elements on each rank.
  template <class T>
  [[nodiscard]] SimulatedWindow<T> open(std::span<T> mine, std::size_t size)
  {
    const Call<std::remove_const_t<T>> call{Collective::expose, mine, {}, size};
    return {group_, group_->post(rank_, call), size};
  }

  /// The ranks that give the same colour, ordered by key, then by rank.
  [[nodiscard]] SimulatedCommunicator split(int colour, int key)
  {
    auto [group, rank] = group_->split(rank_, colour, key);
    return {std::move(group), rank};
  }

 private:
  [[nodiscard]] const SimulatedMachine& machine() const { return group_->simulation().machine(); }

  std::shared_ptr<detail::SimulatedGroup> group_;
  int rank_;
};

static_assert(ExposesMemory<SimulatedCommunicator>);

}  // namespace cubist::CUBIST_ABI
