// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that are MPI processes: the communicator and its requests. Boost.MPI owns and splits MPI's
// communicators; data is sent in messages (mpi/call.hpp), without serialisation.

#include <cstddef>
#include <memory>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/comm/communicator.hpp"
#include "cubist/comm/mpi/group.hpp"
#include "cubist/comm/mpi/window.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/window.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// A request that is dropped before its call is complete aborts the job, unless an exception drops
/// it.
using MpiRequest = detail::PendingCall<detail::MpiGroup>;

/// A communicator of MPI processes.
class MpiCommunicator : public Collectives<MpiCommunicator>
{
 public:
  /// A communicator of an existing group.
  explicit MpiCommunicator(std::shared_ptr<detail::MpiGroup> group) : group_{std::move(group)} {}

  [[nodiscard]] int rank() const { return group_->context().rank; }
  [[nodiscard]] int size() const { return group_->context().size; }
  /// Whether its ranks are on several nodes.
  [[nodiscard]] bool remote() const { return group_->remote(); }

  template <Element T>
  [[nodiscard]] MpiRequest start(const Call<T>& call)
  {
    const auto [number, tag] = group_->count(call);
    MpiRequest request{group_,
                       group_->progress().start(group_->context(), tag, remote(), call, number)};
    if (group_->completes_at_start() && !is_message(call.kind)) request.wait();
    return request;
  }

  [[nodiscard]] bool exposes() const { return !group_->arenas().empty(); }
  [[nodiscard]] int cores() const { return group_->cores(); }
  /// Opens a window on `mine`, one of `size` elements on each rank.
  template <class T>
  [[nodiscard]] MpiWindow<MpiCommunicator, T> open(std::span<T> mine, std::size_t size)
  {
    return {*this, mine, size};
  }
  /// The arena of a rank and the unused buffers of windows, for MpiWindow.
  /// @pre exposes()
  [[nodiscard]] std::byte* arena(int rank) const
  {
    return group_->arenas()[static_cast<std::size_t>(rank)];
  }
  /// The buffers that this rank's windows use again.
  [[nodiscard]] detail::WindowBufferPool& window_buffers() const
  {
    return group_->window_buffers();
  }

  /// The ranks that give the same colour, ordered by key, then by rank.
  [[nodiscard]] MpiCommunicator split(int colour, int key)
  {
    // A barrier of the program has another count, so it is a mismatch if one rank calls barrier
    // where another calls split.
    start(Call<int>{CallKind::barrier, {}, {}, 1}).wait();
    return MpiCommunicator{group_->split(colour, key)};
  }

 private:
  std::shared_ptr<detail::MpiGroup> group_;
};

static_assert(ExposesMemory<MpiCommunicator>);

/// Only the arenas of processes are shared.
template <>
inline constexpr bool exposes_in_place<MpiCommunicator> = false;

}  // namespace cubist::CUBIST_ABI
