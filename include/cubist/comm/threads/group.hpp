// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ranks of one communicator of threads, and their calls in flight. The n-th collective of each
// rank, or the n-th message of each pair, are the same call.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/comm/threads/signature.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

class ThreadGroup
{
 public:
  using Member = ThreadMember;

  /// @param ranks of the launch, in the order of the communicator
  ThreadGroup(std::shared_ptr<ThreadScheduler> scheduler, std::vector<int> ranks)
      : context_{std::move(scheduler), std::move(ranks), {}, {}}, next_(context_.ranks.size(), 0),
        splits_(context_.ranks.size(), 0)
  {
    add_spare(calls_at_once, false);
  }

  [[nodiscard]] ThreadScheduler& scheduler() const { return *context_.scheduler; }
  [[nodiscard]] const std::vector<int>& ranks() const { return context_.ranks; }

  template <Element T>
  ThreadMember& post(int rank, const Call<T>& c)
  {
    return post(rank, c.collective, c.peer, signature_of(c),
                reinterpret_cast<const std::byte*>(c.send.data()),
                reinterpret_cast<std::byte*>(c.recv.data()));
  }

  void wait(ThreadMember& me) { scheduler().wait(me.world_rank, me); }
  bool test(ThreadMember& me) { return scheduler().test(me.world_rank, me); }
  /// Waits until all ranks have exposed their blocks.
  void wait_open(ThreadMember& me)
  {
    scheduler().wait(me.world_rank, me, [&] { return me.reads_peers; });
  }

  void release(ThreadMember& me)
  {
    auto& call = *me.call;
    const std::lock_guard lock{context_.mutex};
    if (++call.left == call.members.size() && call.revoked_by < 0) recycle(call);
  }
  void abandon(ThreadMember& me)
  {
    if (!me.remaining.empty()) me.call->revoke(me);
    release(me);
  }

  /// The group of a split. The first of its ranks creates it, the last one removes it from the map.
  std::shared_ptr<ThreadGroup> child(int rank, int colour, std::vector<int> ranks)
  {
    const std::lock_guard lock{context_.mutex};
    const auto key = std::pair{splits_[static_cast<std::size_t>(rank)]++, colour};
    auto& [group, missing] = children_[key];
    if (group == nullptr)
    {
      missing = ranks.size();
      group = std::make_shared<ThreadGroup>(context_.scheduler, std::move(ranks));
    }
    auto mine = group;
    if (--missing == 0) children_.erase(key);
    return mine;
  }

 private:
  // Ranks may be so many calls ahead of each other, which then allocate nothing.
  static constexpr std::size_t calls_at_once = 16;
  static constexpr std::size_t most_messages_at_once = 1024;

  /// Calls for later: collectives, or messages.
  void add_spare(std::size_t n, bool messages)
  {
    for (auto* calls : {&in_flight_, &spare_}) calls->reserve(calls_.size() + 2 * n);
    for (std::size_t i = 0; i < n; ++i)
    {
      auto& call = calls_.emplace_back();
      if (messages) call.from = call.to = 0;
      enrol(call);
      spare_.push_back(&call);
    }
  }

  /// The number of the next message of a pair.
  std::uint64_t& next_message(int from, int to, bool sends)
  {
    const std::size_t p = context_.ranks.size();
    if (messages_.empty())
    {
      messages_.resize(2 * p);
      add_spare(std::min(2 * p * p, most_messages_at_once), true);
    }
    auto& of_rank = messages_[2 * static_cast<std::size_t>(sends ? from : to) + (sends ? 1 : 0)];
    if (of_rank.empty()) of_rank.resize(p);
    return of_rank[static_cast<std::size_t>(sends ? to : from)];
  }

  ThreadMember& post(int rank, Collective collective, int peer, const Signature& signature,
                     const std::byte* send, std::byte* recv)
  {
    const bool sends = collective == Collective::send;
    const bool message = is_message(collective);
    const int from = sends ? rank : peer;
    const int to = sends ? peer : rank;
    scheduler().raise();
    const auto index = static_cast<std::size_t>(rank);
    const int world_rank = context_.ranks[index];
    ThreadScheduler::DeferredNotify notify{scheduler(), world_rank};
    std::unique_lock lock{context_.mutex};
    auto& number = message ? next_message(from, to, sends) : next_[index];
    auto& call = message ? find(from, to, number++) : find(-1, -1, number++);
    if (call.members.empty()) enrol(call);
    if (call.gates[static_cast<std::size_t>(Gate::posted)] == 0)
    {
      call.signature = signature;
      call.first_rank = world_rank;
    }
    else if (call.signature != signature)
    {
      const auto why = mismatch(call, signature, collective, world_rank);
      lock.unlock();
      scheduler().fail(ThreadScheduler::Failure::mismatch, why);
      throw CollectiveMismatch{why};
    }

    auto& me = call.members[message ? (sends ? 0 : 1) : index];
    const bool source = message ? sends : has_root(collective) && peer == rank;
    me.send = send;
    me.recv = recv;
    me.remaining = stages(collective, source);
    me.posted = true;
    if (source) call.signal(Gate::source, notify);
    call.signal(Gate::posted, notify);
    scheduler().add(world_rank, me);
    return me;
  }

  /// Sets the members of a call: all ranks, or the two ends of a message.
  void enrol(ThreadCall& call)
  {
    call.context = &context_;
    call.members.resize(call.is_message() ? 2 : context_.ranks.size());
    for (std::size_t i = 0; i < call.members.size(); ++i)
    {
      const auto rank =
          call.is_message() ? static_cast<std::size_t>(i == 0 ? call.from : call.to) : i;
      call.members[i].call = &call;
      call.members[i].index = i;
      call.members[i].world_rank = context_.ranks[rank];
    }
  }

  ThreadCall& find(int from, int to, std::uint64_t number)
  {
    for (auto* c : in_flight_)
      if (c->number == number && c->from == from && c->to == to) return *c;
    auto fits = [&](const ThreadCall* c) { return c->is_message() == (from >= 0); };
    const auto spare = std::find_if(spare_.rbegin(), spare_.rend(), fits);
    auto* call = spare != spare_.rend() ? *spare : &calls_.emplace_back();
    if (spare != spare_.rend()) spare_.erase(std::next(spare).base());
    if (from >= 0) call->members.clear();
    call->from = from;
    call->to = to;
    call->number = number;
    in_flight_.push_back(call);
    return *call;
  }

  void recycle(ThreadCall& call)
  {
    call.gates = {};
    call.left = 0;
    for (auto& m : call.members) m.posted = false;
    std::erase(in_flight_, &call);
    spare_.push_back(&call);
  }

  [[nodiscard]] static std::string mismatch(const ThreadCall& call, Signature mine,
                                            Collective called, int world_rank)
  {
    auto first = call.signature;
    if (call.is_message())
    {
      mine.collective = called;
      first.collective = called == Collective::send ? Collective::receive : Collective::send;
    }
    return "rank " + std::to_string(world_rank) + " called " + text(mine) + ", but rank " +
           std::to_string(call.first_rank) + " called " + text(first) + " as call " +
           std::to_string(call.number) + call.where() +
           ", so neither can complete; let all its ranks make the same calls in the same order, "
           "with the same element type, size, root and operation";
  }

  ThreadContext context_;
  std::vector<std::uint64_t> next_;
  std::vector<std::uint64_t> splits_;
  std::map<std::pair<std::uint64_t, int>, std::pair<std::shared_ptr<ThreadGroup>, std::size_t>>
      children_;
  std::vector<std::vector<std::uint64_t>> messages_;  // of each rank: received, and sent
  std::deque<ThreadCall> calls_;
  std::vector<ThreadCall*> in_flight_;
  std::vector<ThreadCall*> spare_;
};

}  // namespace cubist::CUBIST_ABI::detail
