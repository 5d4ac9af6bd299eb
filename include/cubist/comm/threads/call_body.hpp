// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The bodies of call.hpp's functions, which the compiled library contains.

#include <algorithm>
#include <cstring>

#include "cubist/comm/small_call.hpp"
#include "cubist/comm/threads/call.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE void ThreadCall::begin(ThreadMember& me, Notify& notify)
{
  me.remaining = copy_block(me) ? stages(signature.kind).copies : stages_of(me);
  if (is_source(me)) notify_waiting(Gate::source, notify);
  notify_waiting(Gate::posted, notify);
}

CUBIST_INLINE bool ThreadCall::copy_block(ThreadMember& me)
{
  const CallKind kind = signature.kind;
  const std::size_t bytes = bytes_to_copy(kind, signature.bytes(), members.size());
  if (signature.writable || !is_small(kind, signature.bytes(), members.size())) return false;
  const bool has_block = me.send != nullptr || bytes == 0;
  // The block that a rank exposes may be shorter than the longest one.
  if (const std::size_t mine = std::min(bytes, me.send_bytes); has_block && mine > 0)
  {
    std::byte* const copy = copies.get() + me.index * longest_copy(members.size());
    set_block(me, static_cast<const std::byte*>(std::memcpy(copy, me.send, mine)));
  }
  return has_block || kind == CallKind::expose;  // in a split no rank has one
}

CUBIST_INLINE bool ThreadCall::advance(ThreadMember& me)
{
  // Most polls find that nothing has happened.
  if (!me.remaining.empty() && left_by < 0 && !open(me.remaining.front().waits_for)) return false;
  Notify notify{*context->scheduler, me.world_rank};
  auto lock = context->lock();
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
      lock = context->lock();
      remove_reader();
    }
    me.remaining = me.remaining.subspan(1);
    if (stage.signals != Gate::none) signal(stage.signals, notify);
  }
  return true;
}

CUBIST_INLINE void ThreadCall::close(ThreadMember& me)
{
  const bool reads_copies = me.remaining.empty() || me.remaining.back().waits_for != Gate::done;
  if (reads_copies) return;
  Notify notify{*context->scheduler, me.world_rank};
  const auto lock = context->lock();
  stop_reading(me);
  me.remaining = me.remaining.last(1);  // it may neither have read nor waited for the window
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
  auto lock = context->lock();
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

}  // namespace cubist::CUBIST_ABI::detail
