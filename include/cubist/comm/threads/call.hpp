// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call in flight between ranks that are threads: the addresses that each rank has posted, and the
// stages (stages.hpp) through which each rank advances.
//
// A rank that leaves a call before its end (it threw, or dropped its request) revokes the call: it
// waits until no peer reads its buffers, so none is read after it is freed.

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/comm/threads/rank_state.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/comm/threads/signature.hpp"
#include "cubist/comm/threads/stages.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// What the calls of one communicator share.
struct ThreadContext
{
  std::shared_ptr<ThreadScheduler> scheduler;
  std::vector<int> ranks;  // of the launch
  std::mutex mutex;        // of all calls
  std::condition_variable drained;
};

/// One rank's part in a call.
struct ThreadMember final : Waiter
{
  bool advance() override;
  [[nodiscard]] std::string describe() const override;
  [[nodiscard]] std::vector<int> awaited() const override;

  ThreadCall* call = nullptr;
  std::size_t index = 0;
  int world_rank = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  std::span<const Stage> remaining;
  bool posted = false;
  bool reads_peers = false;
};

/// A call in flight, on all its ranks.
struct ThreadCall
{
  using Notify = ThreadScheduler::DeferredNotify;

  ThreadContext* context = nullptr;
  int from = -1;  // of a message; a collective has none
  int to = -1;
  std::uint64_t number = 0;
  Signature signature;
  int first_rank = 0;
  std::vector<ThreadMember> members;
  std::array<std::size_t, 4> gates{};
  std::size_t left = 0;
  int readers = 0;
  int revoked_by = -1;

  [[nodiscard]] bool is_message() const { return from >= 0; }

  [[nodiscard]] bool open(Gate g) const
  {
    const auto all = members.size();
    std::size_t target = g == Gate::source ? 1 : all;
    if (g == Gate::done)
    {
      if (signature.collective == Collective::gather) target = 1;
      if (signature.collective == Collective::broadcast ||
          signature.collective == Collective::scatter || is_message())
        target = all - 1;
    }
    return gates[static_cast<std::size_t>(g)] >= target;
  }

  /// @pre context->mutex is locked
  void signal(Gate gate, Notify& notify)
  {
    ++gates[static_cast<std::size_t>(gate)];
    if (!open(gate)) return;
    for (const auto& m : members)
      if (m.posted && !m.remaining.empty() && m.remaining.front().waits_for == gate)
        notify.add(m.world_rank);
  }

  /// Takes a rank through the stages whose gates are open; true when none is left.
  bool advance(ThreadMember& me)
  {
    Notify notify{*context->scheduler, me.world_rank};
    std::unique_lock lock{context->mutex};
    while (!me.remaining.empty())
    {
      const Stage stage = me.remaining.front();
      if (revoked_by >= 0)
      {
        context->scheduler->raise();  // the reason why that rank left, if all ranks failed
        throw PeerFailed{"rank " + std::to_string(revoked_by) + " left " + text(signature) +
                         where() + " before its end, so rank " + std::to_string(me.world_rank) +
                         " cannot complete it; look for the error of that rank"};
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
        perform(stage.work, me);
        lock.lock();
        remove_reader();
      }
      me.remaining = me.remaining.subspan(1);
      if (stage.signals != Gate::none) signal(stage.signals, notify);
    }
    return true;
  }

  /// A rank no longer reads its peers' blocks.
  void close(ThreadMember& me)
  {
    Notify notify{*context->scheduler, me.world_rank};
    const std::lock_guard lock{context->mutex};
    stop_reading(me);
    signal(Gate::done, notify);
  }

  /// Ends the call for all its ranks; returns when no rank reads the buffers of this one.
  void revoke(ThreadMember& me)
  {
    {
      // Ranks that read peers' blocks may be parked in another call: wake them first.
      Notify notify{*context->scheduler, me.world_rank};
      const std::lock_guard lock{context->mutex};
      context->scheduler->remove(me.world_rank, me);
      stop_reading(me);
      if (revoked_by < 0) revoked_by = me.world_rank;
      for (const auto& m : members)
        if (m.posted && !m.remaining.empty() && &m != &me) notify.add(m.world_rank);
    }
    std::unique_lock lock{context->mutex};
    context->drained.wait(lock, [&] { return readers == 0; });
  }

  [[nodiscard]] Share share(std::size_t member) const
  {
    return share_of(static_cast<int>(member), static_cast<int>(members.size()), signature.count);
  }

  void perform(CopyWork work, const ThreadMember& me) const
  {
    const std::size_t bytes = signature.count * signature.element_size;
    const auto copy = [](std::byte* out, const std::byte* in, std::size_t n) {
      if (n != 0 && out != in) std::memcpy(out, in, n);
    };
    const auto root = static_cast<std::size_t>(signature.peer);
    switch (work)
    {
    case CopyWork::none:
    case CopyWork::read_peers:
      break;
    case CopyWork::copy_source:
      copy(me.recv, members[is_message() ? 0 : root].send, bytes);
      break;
    case CopyWork::copy_piece:
      copy(me.recv, members[root].send + me.index * bytes, bytes);
      break;
    case CopyWork::gather_pieces:
      for (const auto& m : members) copy(me.recv + m.index * bytes, m.send, bytes);
      break;
    case CopyWork::exchange_pieces:
      for (const auto& m : members)
        copy(me.recv + m.index * bytes, m.send + me.index * bytes, bytes);
      break;
    case CopyWork::reduce_piece:
      if (signature.collective == Collective::reduce_scatter)
        return signature.reduce(*this, me.index * signature.count, signature.count, me.recv);
      else
      {
        const bool rooted = signature.collective == Collective::reduce;
        const auto [first, n] = share(me.index);
        return signature.reduce(*this, first, n,
                                members[rooted ? root : me.index].recv +
                                    first * signature.element_size);
      }
    case CopyWork::copy_reduced:
      for (const auto& m : members)
      {
        const auto [first, n] = share(m.index);
        copy(me.recv + first * signature.element_size, m.recv + first * signature.element_size,
             n * signature.element_size);
      }
      break;
    }
  }

  /// " on ranks {0, 1}", the first 16 of them; " from rank 0 to rank 1" for a message.
  [[nodiscard]] std::string where() const
  {
    if (is_message())
      return " from rank " + std::to_string(members[0].world_rank) + " to rank " +
             std::to_string(members[1].world_rank);
    return " on ranks " + rank_list(context->ranks);
  }

  [[nodiscard]] std::string describe(const ThreadMember& me) const
  {
    const std::lock_guard lock{context->mutex};
    auto mine = signature;
    if (is_message() && me.index == 1) mine.collective = Collective::receive;
    const auto [ranks, called] = awaited_by(me);
    return text(mine) + where() + ", which " +
           (ranks.empty() ? "another rank has" : "ranks " + rank_list(ranks) + " have") +
           (called ? " not completed" : " not called");
  }

  [[nodiscard]] std::vector<int> awaited(const ThreadMember& me) const
  {
    const std::lock_guard lock{context->mutex};
    return awaited_by(me).first;
  }

 private:
  void remove_reader()
  {
    if (--readers == 0 && revoked_by >= 0) context->drained.notify_all();
  }
  void stop_reading(ThreadMember& me)
  {
    if (std::exchange(me.reads_peers, false)) remove_reader();
  }

  /// The ranks that have not called; or else, once all have, those that can advance, or read peers'
  /// blocks. And whether all have called.
  [[nodiscard]] std::pair<std::vector<int>, bool> awaited_by(const ThreadMember& me) const
  {
    std::pair<std::vector<int>, bool> awaited;
    auto& [ranks, called] = awaited;
    for (const auto& m : members)
      if (!m.posted) ranks.push_back(m.world_rank);
    called = ranks.empty();
    if (!called) return awaited;
    for (const auto& m : members)
      if (&m != &me && !m.remaining.empty() &&
          (m.reads_peers || open(m.remaining.front().waits_for)))
        ranks.push_back(m.world_rank);
    return awaited;
  }
};

inline bool ThreadMember::advance() { return call->advance(*this); }
inline std::string ThreadMember::describe() const { return call->describe(*this); }
inline std::vector<int> ThreadMember::awaited() const { return call->awaited(*this); }

template <Element T>
void combine_members(const ThreadCall& call, std::size_t first, std::size_t count, std::byte* out)
{
  const auto& s = call.signature;
  const std::size_t begin = first_summand(s.collective, s.peer, call.members.size());
  const auto in = [&](std::size_t i) {
    const auto m = (begin + i) % call.members.size();
    return reinterpret_cast<const T*>(call.members[m].send) + first;
  };
  combine(s.op, call.members.size(), in, count, reinterpret_cast<T*>(out));
}

}  // namespace cubist::CUBIST_ABI::detail
