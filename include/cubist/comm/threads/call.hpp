// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call in flight between ranks that are threads. Each rank advances through the stages of its
// part (comm/group/stages.hpp), and wakes those that wait for a gate that it opens. Small blocks
// are copied into the call object.
//
// A rank that leaves a call before its end (it threw, or dropped its request) revokes the call: it
// waits until no peer reads its buffers, so none is read after it is freed.

#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/group/call.hpp"
#include "cubist/comm/group/stages.hpp"
#include "cubist/comm/threads/rank_state.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/compiled.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What the calls of one communicator share.
struct ThreadContext
{
  /// Locks the mutex. No rank holds it for long, so this tries a few times before it calls the
  /// kernel, which takes longer.
  [[nodiscard]] std::unique_lock<std::mutex> lock()
  {
    constexpr int tries = 64;
    std::unique_lock lock{mutex, std::try_to_lock};
    for (int i = 1; i < tries && !lock; ++i)
    {
      pause_core();
      (void)lock.try_lock();
    }
    if (!lock) lock.lock();
    return lock;
  }

  std::shared_ptr<ThreadScheduler> scheduler;
  std::mutex mutex;  // guards all calls
  std::condition_variable drained;
};

struct ThreadCall;

/// One rank's part in a call.
struct ThreadMember final : Waiter, GroupMember<ThreadCall>
{
  bool advance() override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::vector<int> awaited() const override;

  /// Whether peers' blocks, or copies of them, can be read.
  [[nodiscard]] bool is_open() const { return reads_peers || remaining.empty(); }

  std::span<const Stage> remaining;
  bool reads_peers = false;
};

/// A call in flight, with the parts of all its ranks.
struct ThreadCall : GroupCall<ThreadMember>
{
  using Notify = ThreadScheduler::DeferredNotify;

  ThreadContext* context = nullptr;
  int readers = 0;
  // The small blocks of all ranks. Its pages are touched only when they are first used.
  std::unique_ptr<std::byte[]> copies;

  /// Begins the stages of a rank that has posted its part.
  /// @pre context->mutex is locked
  void begin(ThreadMember& me, Notify& notify);

  /// Advances a rank through the stages whose gates are open; returns whether no stage is left.
  bool advance(ThreadMember& me);

  /// Records that a rank no longer reads its peers' blocks, or never will.
  void close(ThreadMember& me);

  /// Ends the call for all its ranks; returns when no rank reads this rank's buffers.
  void revoke(ThreadMember& me);

  [[nodiscard]] std::string describe(const ThreadMember& me) const;

  [[nodiscard]] std::vector<int> awaited(const ThreadMember& me) const;

 private:
  /// Copies a rank's block to the call if all ranks do so; returns whether they do.
  bool copy_block(ThreadMember& me);

  void signal(Gate gate, Notify& notify)
  {
    pass(gate);
    notify_waiting(gate, notify);
  }
  void notify_waiting(Gate gate, Notify& notify);

  void remove_reader()
  {
    if (--readers == 0 && left_by >= 0) context->drained.notify_all();
  }
  void stop_reading(ThreadMember& me)
  {
    if (std::exchange(me.reads_peers, false)) remove_reader();
  }

  /// The other ranks that can still advance, or that read peers' blocks.
  [[nodiscard]] std::vector<int> incomplete(const ThreadMember& me) const;
};

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/comm/threads/call_body.hpp")
