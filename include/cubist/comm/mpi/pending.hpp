// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The calls of one MPI process that have started and whose requests still exist. Their objects are
// reused, so that a steady step allocates nothing.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/mpi/call.hpp"
#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct MpiPendingCall
{
  MpiCall call;
  bool active = false;  // neither complete nor failed
  bool remote = false;  // between nodes
  bool failed = false;
  std::int64_t number = 0;   // the call's number (mpi/returned_ranks.hpp); 0 if it is not counted
  std::exception_ptr error;  // the error of a failed call, until it is thrown
};

class MpiPendingCalls
{
 public:
  /// @param in_flight for how many calls memory is allocated at the start, 8 KiB each
  explicit MpiPendingCalls(std::size_t in_flight)
  {
    constexpr std::size_t pointers = 64;
    for (auto* all : {&unused_, &active_}) all->reserve(pointers);
    for (std::size_t i = 0; i < in_flight; ++i)
      unused_.push_back(calls_.emplace_back(std::make_unique<MpiPendingCall>()).get());
  }

  /// Adds a call that begins with `post(call)`. It may complete, or fail, immediately.
  template <class Post>
  MpiPendingCall& add(bool remote, std::int64_t number, Post post)
  {
    auto& pending = acquire();
    pending.number = number;
    pending.failed = false;
    pending.error = nullptr;
    pending.remote = remote;
    pending.active = true;
    active_.push_back(&pending);
    attempt(pending, [&] {
      post(pending.call);
      return pending.call.advance();
    });
    return pending;
  }

  void advance_all()
  {
    for (std::size_t i = active_.size(); i-- > 0;)
      attempt(*active_[i], [call = &active_[i]->call] { return call->advance(); });
  }

  /// Ends a cancelled call. Waits until none of its messages is pending, or until none has
  /// completed for 500 ms, and leaves the rest to MPI. Peers may access the buffers of the call
  /// until they receive the failure notification.
  void drain(MpiPendingCall& pending)
  {
    using namespace std::chrono_literals;
    deactivate(pending);
    std::size_t count = pending.call.count_pending();
    for (Backoff backoff; count > 0 && backoff.waited() < 500ms; backoff.pause())
    {
      const std::size_t now = pending.call.count_pending();
      if (now < count) backoff = {};
      count = now;
    }
    pending.call.release();
  }

  /// Frees the object for another call.
  /// @pre !pending.active
  void release(MpiPendingCall& pending) { unused_.push_back(&pending); }

  /// The calls that are neither complete nor failed.
  [[nodiscard]] const std::vector<MpiPendingCall*>& active() const { return active_; }
  [[nodiscard]] bool any_remote() const
  {
    return std::ranges::any_of(active_, [](const auto* p) { return p->remote; });
  }
  /// Whether peers notify this process of the completion of every active call.
  [[nodiscard]] bool all_use_shared_barrier() const
  {
    return std::ranges::all_of(active_,
                               [](const auto* p) { return p->call.uses_shared_barrier(); });
  }

 private:
  void deactivate(MpiPendingCall& pending)
  {
    pending.active = false;
    std::erase(active_, &pending);
  }

  /// Runs a step that returns whether the call is complete, and keeps the error that it throws.
  template <class F>
  void attempt(MpiPendingCall& pending, F step)
  {
    try
    {
      if (step()) deactivate(pending);
    }
    catch (...)
    {
      pending.error = std::current_exception();
      pending.failed = true;
      deactivate(pending);
    }
  }

  MpiPendingCall& acquire()
  {
    if (unused_.empty()) return *calls_.emplace_back(std::make_unique<MpiPendingCall>());
    auto& pending = *unused_.back();
    unused_.pop_back();
    return pending;
  }

  std::vector<std::unique_ptr<MpiPendingCall>> calls_;
  std::vector<MpiPendingCall*> unused_;
  std::vector<MpiPendingCall*> active_;
};

}  // namespace cubist::CUBIST_ABI::detail
