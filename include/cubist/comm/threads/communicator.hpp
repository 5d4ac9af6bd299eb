// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The communicator of ranks that are threads of one process, and its windows: the block of each
// rank, in place.

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/group.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A call of a ThreadsCommunicator in flight.
using ThreadsRequest = detail::PendingCall<detail::ThreadGroup>;

/// @tparam T const, unless peers may write to the blocks
template <class T>
class ThreadsWindow
{
 public:
  /// Collective: opened by `expose` and `expose_writable`.
  ThreadsWindow(const std::shared_ptr<detail::ThreadGroup>& group, detail::ThreadMember& member,
                std::size_t count)
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
    member_->call->close(*member_);
  }
  void wait() { request_.wait(); }

 private:
  detail::ThreadGroup* group_;  // the request keeps it alive
  detail::ThreadMember* member_;
  std::size_t count_;
  ThreadsRequest request_;
};

/// A communicator of threads of one process.
class ThreadsCommunicator : public Collectives<ThreadsCommunicator>
{
 public:
  /// Rank `rank` of a group.
  ThreadsCommunicator(std::shared_ptr<detail::ThreadGroup> group, int rank)
      : group_{std::move(group)}, rank_{rank}
  {
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return static_cast<int>(group_->ranks().size()); }
  [[nodiscard]] bool remote() const { return false; }

  template <Element T>
  [[nodiscard]] ThreadsRequest start(const Call<T>& call)
  {
    return {group_, group_->post(rank_, call)};
  }

  [[nodiscard]] bool exposes() const { return true; }
  [[nodiscard]] int cores() const
  {
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  /// Opens a window on `mine`, one of `size` elements on each rank.
  template <class T>
  [[nodiscard]] ThreadsWindow<T> open(std::span<T> mine, std::size_t size)
  {
    const Call<std::remove_const_t<T>> call{Collective::expose, mine, {}, size};
    return {group_, group_->post(rank_, call), size};
  }

  /// The ranks that give the same colour, ordered by key, then by rank.
  [[nodiscard]] ThreadsCommunicator split(int colour, int key)
  {
    const auto n = static_cast<std::size_t>(size());
    std::vector<int> all(2 * n);
    all_gather(std::array{colour, key}, all);
    std::vector<std::pair<int, int>> members;  // key, rank
    for (int r = 0; r < size(); ++r)
      if (all[2 * static_cast<std::size_t>(r)] == colour)
        members.emplace_back(all[2 * static_cast<std::size_t>(r) + 1], r);
    std::sort(members.begin(), members.end());

    std::vector<int> ranks;
    int position = 0;
    for (const auto& [_, r] : members)
    {
      if (r == rank_) position = static_cast<int>(ranks.size());
      ranks.push_back(group_->ranks()[static_cast<std::size_t>(r)]);
    }
    return {group_->child(rank_, colour, std::move(ranks)), position};
  }

 private:
  std::shared_ptr<detail::ThreadGroup> group_;
  int rank_;
};

static_assert(ExposesMemory<ThreadsCommunicator>);

}  // namespace cubist::CUBIST_ABI
