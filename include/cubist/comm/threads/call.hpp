// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call in flight between ranks that are threads. Each rank advances through the stages of its
// part (comm/group/stages.hpp), and wakes those that wait for a gate that it opens.
//
// A rank that leaves a call before its end (it threw, or dropped its request) revokes the call: it
// waits until no peer reads its buffers, so none is read after it is freed.

#include <condition_variable>
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

  std::span<const Stage> remaining;
  bool reads_peers = false;
};

/// A call in flight, on all its ranks.
struct ThreadCall : GroupCall<ThreadMember>
{
  using Notify = ThreadScheduler::DeferredNotify;

  ThreadContext* context = nullptr;
  int readers = 0;

  /// Begins the stages of a rank that has posted its part.
  /// @pre context->mutex is locked
  void begin(ThreadMember& me, Notify& notify);

  /// Takes a rank through the stages whose gates are open; true when none is left.
  bool advance(ThreadMember& me);

  /// Called when a rank no longer reads its peers' blocks.
  void close(ThreadMember& me);

  /// Ends the call for all its ranks; returns when no rank reads the buffers of this one.
  void revoke(ThreadMember& me);

  [[nodiscard]] std::string describe(const ThreadMember& me) const;

  [[nodiscard]] std::vector<int> awaited(const ThreadMember& me) const;

 private:
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

  /// The other ranks that can advance, or read peers' blocks.
  [[nodiscard]] std::vector<int> incomplete(const ThreadMember& me) const;
};

#ifndef CUBIST_COMPILED

CUBIST_INLINE void ThreadCall::begin(ThreadMember& me, Notify& notify)
{
  me.remaining = stages_of(me);
  if (is_source(me)) notify_waiting(Gate::source, notify);
  notify_waiting(Gate::posted, notify);
}

CUBIST_INLINE bool ThreadCall::advance(ThreadMember& me)
{
  Notify notify{*context->scheduler, me.world_rank};
  std::unique_lock lock{context->mutex};
  while (!me.remaining.empty())
  {
    const Stage stage = me.remaining.front();
    if (left_by >= 0)
    {
      context->scheduler->raise();  // the reason why that rank left, if all ranks failed
      throw left_error(me);
    }
    if (!open(stage.waits_for)) return false;
    if (stage.work == CopyWork::read_peers)
    {
      ++readers;
      me.reads_peers = true;
    }
    else if (stage.work != CopyWork::none)
    {
      ++readers;
      lock.unlock();
      perform(stage.work, me, DirectMemory{});
      lock.lock();
      remove_reader();
    }
    me.remaining = me.remaining.subspan(1);
    if (stage.signals != Gate::none) signal(stage.signals, notify);
  }
  return true;
}

CUBIST_INLINE void ThreadCall::close(ThreadMember& me)
{
  Notify notify{*context->scheduler, me.world_rank};
  const std::lock_guard lock{context->mutex};
  stop_reading(me);
  signal(Gate::done, notify);
}

CUBIST_INLINE void ThreadCall::revoke(ThreadMember& me)
{
  {
    // Ranks that read peers' blocks may be parked in another call: wake them first.
    Notify notify{*context->scheduler, me.world_rank};
    const std::lock_guard lock{context->mutex};
    context->scheduler->remove(me.world_rank, me);
    stop_reading(me);
    if (left_by < 0) left_by = me.world_rank;
    for (const auto& m : members)
      if (m.posted && !m.remaining.empty() && &m != &me) notify.add(m.world_rank);
  }
  std::unique_lock lock{context->mutex};
  context->drained.wait(lock, [&] { return readers == 0; });
}

CUBIST_INLINE std::string ThreadCall::describe(const ThreadMember& me) const
{
  const std::lock_guard lock{context->mutex};
  return GroupCall::describe(me, incomplete(me));
}

CUBIST_INLINE std::vector<int> ThreadCall::awaited(const ThreadMember& me) const
{
  const std::lock_guard lock{context->mutex};
  const auto late = missing();
  return late.empty() ? incomplete(me) : late;
}

CUBIST_INLINE void ThreadCall::notify_waiting(Gate gate, Notify& notify)
{
  if (!open(gate)) return;
  for (const auto& m : members)
    if (m.posted && !m.remaining.empty() && m.remaining.front().waits_for == gate)
      notify.add(m.world_rank);
}

CUBIST_INLINE std::vector<int> ThreadCall::incomplete(const ThreadMember& me) const
{
  std::vector<int> found;
  for (const auto& m : members)
    if (&m != &me && !m.remaining.empty() && (m.reads_peers || open(m.remaining.front().waits_for)))
      found.push_back(m.world_rank);
  return found;
}

CUBIST_INLINE bool ThreadMember::advance() { return call->advance(*this); }
CUBIST_INLINE std::string ThreadMember::describe() const { return call->describe(*this); }
CUBIST_INLINE std::vector<int> ThreadMember::awaited() const { return call->awaited(*this); }

#endif

}  // namespace cubist::CUBIST_ABI::detail
