// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ranks of one communicator of threads, and their calls under way: who has posted, who may go
// on, and who is gone.
//
// A rank that leaves a call before the end (it threw, or dropped its request) first revokes the
// call and waits until nobody reads its buffers, so none is read after it is gone.

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/threads/call.hpp"
#include "cubist/comm/threads/call_text.hpp"
#include "cubist/comm/threads/scheduler.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

/// The ranks of one communicator, and their calls under way.
class ThreadGroup
{
 public:
  ThreadGroup(std::shared_ptr<ThreadScheduler> world, std::vector<int> ranks)
      : world_{std::move(world)}, ranks_{std::move(ranks)}, next_(ranks_.size(), 0),
        splits_(ranks_.size(), 0)
  {
    // Ranks may be some calls ahead of each other; later ones find room made already.
    under_way_.reserve(2 * calls_at_once);
    spare_.reserve(2 * calls_at_once);
    for (std::size_t i = 0; i < calls_at_once; ++i)
    {
      auto& call = calls_.emplace_back();
      enrol(call);
      spare_.push_back(&call);
    }
  }

  [[nodiscard]] ThreadScheduler& world() const { return *world_; }
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }

  template <Element T>
  ThreadMember& post(int rank, const Call<T>& c)
  {
    const bool message = c.collective == Collective::send || c.collective == Collective::receive;
    const int from = c.collective == Collective::send ? rank : c.peer;
    const int to = c.collective == Collective::send ? c.peer : rank;
    const Signature signature{
        message ? Collective::send : c.collective, c.count, sizeof(T),          &element_name<T>,
        has_root(c.collective) ? c.peer : 0,       c.op,    &combine_members<T>};
    world_->raise();
    const int world_rank = ranks_[static_cast<std::size_t>(rank)];
    ThreadScheduler::Wakes wakes{*world_, world_rank};
    std::unique_lock lock{mutex_};
    auto& number =
        message ? messages_[{from, to, c.collective}] : next_[static_cast<std::size_t>(rank)];
    auto& call = message ? find(from, to, number++) : find(-1, -1, number++);
    if (call.members.empty()) enrol(call);
    if (call.gates[static_cast<std::size_t>(Gate::posted)] == 0)
    {
      call.signature = signature;
      call.first_rank = world_rank;
    }
    else if (call.signature != signature)
    {
      const auto why = mismatch(call, signature, c.collective, world_rank);
      lock.unlock();
      world_->fail(ThreadScheduler::Failure::mismatch, why);
      throw CollectiveMismatch{why};
    }

    const bool sends = c.collective == Collective::send;
    auto& me = call.members[message ? (sends ? 0 : 1) : static_cast<std::size_t>(rank)];
    const bool source = message ? sends : has_root(c.collective) && c.peer == rank;
    me.send = reinterpret_cast<const std::byte*>(c.send.data());
    me.recv = reinterpret_cast<std::byte*>(c.recv.data());
    me.remaining = stages(c.collective, source);
    me.posted = true;
    if (source) signal(call, Gate::source, wakes);
    signal(call, Gate::posted, wakes);
    world_->add(world_rank, me);
    return me;
  }

  bool advance(ThreadMember& me)
  {
    auto& call = *me.call;
    ThreadScheduler::Wakes wakes{*world_, me.world_rank};
    std::unique_lock lock{mutex_};
    while (!me.remaining.empty())
    {
      const Stage stage = me.remaining.front();
      if (call.revoked_by >= 0)
      {
        world_->raise();  // what made that rank leave, if it was a failure of all
        throw PeerFailed{"rank " + std::to_string(call.revoked_by) + " left " + text(call) +
                         " before its end, so rank " + std::to_string(me.world_rank) +
                         " cannot complete it; look for the error of that rank"};
      }
      if (!call.open(stage.waits_for)) return false;
      if (stage.work == CopyWork::read_on)
      {
        ++call.readers;
        me.reads_on = true;
      }
      else if (stage.work != CopyWork::none)
      {
        ++call.readers;
        lock.unlock();
        call.perform(stage.work, me);
        lock.lock();
        read(call);
      }
      me.remaining = me.remaining.subspan(1);
      if (stage.signals != Gate::none) signal(call, stage.signals, wakes);
    }
    return true;
  }

  /// The rank of `me` reads no more of what it has borrowed.
  void close(ThreadMember& me)
  {
    auto& call = *me.call;
    ThreadScheduler::Wakes wakes{*world_, me.world_rank};
    const std::lock_guard lock{mutex_};
    stop_reading(me);
    signal(call, Gate::done, wakes);
  }

  /// The rank of `me` has no more to do with its call.
  void leave(ThreadMember& me)
  {
    auto& call = *me.call;
    if (!me.remaining.empty()) revoke(me);
    const std::lock_guard lock{mutex_};
    if (++call.left == call.members.size() && call.revoked_by < 0) recycle(call);
  }

  [[nodiscard]] std::string describe(const ThreadMember& me) const
  {
    const std::lock_guard lock{mutex_};
    const auto& call = *me.call;
    // The ends of a message share its signature; only its text tells them apart.
    auto signature = call.signature;
    if (call.from >= 0 && me.index == 1) signature.collective = Collective::receive;
    const auto [ranks, called] = awaited_by(me);
    return detail::text(signature) + where(call) + ", which " +
           (ranks.empty() ? "another rank has" : "ranks " + rank_list(ranks) + " have") +
           (called ? " not completed" : " not called");
  }

  /// The ranks whose turn it is in the call of `me`.
  [[nodiscard]] std::vector<int> awaited(const ThreadMember& me) const
  {
    const std::lock_guard lock{mutex_};
    return awaited_by(me).first;
  }

  /// The group of these ranks. The first of them to come makes it, the last takes it off the list.
  std::shared_ptr<ThreadGroup> child(int rank, int colour, std::vector<int> ranks)
  {
    const std::lock_guard lock{mutex_};
    const auto key = std::pair{splits_[static_cast<std::size_t>(rank)]++, colour};
    auto& [group, missing] = children_[key];
    if (group == nullptr)
    {
      missing = ranks.size();
      group = std::make_shared<ThreadGroup>(world_, std::move(ranks));
    }
    auto mine = group;
    if (--missing == 0) children_.erase(key);
    return mine;
  }

 private:
  static constexpr std::size_t calls_at_once = 16;

  /// Makes those members of a call who take part: all ranks, or the ends of a message.
  void enrol(ThreadCall& call) const
  {
    const bool message = call.from >= 0;
    call.members.resize(message ? 2 : ranks_.size());
    for (std::size_t i = 0; i < call.members.size(); ++i)
    {
      call.members[i].call = &call;
      call.members[i].index = i;
      call.members[i].world_rank =
          ranks_[message ? static_cast<std::size_t>(i == 0 ? call.from : call.to) : i];
    }
  }

  /// Who has not called, or else, once all have, who could go on, or reads on.
  [[nodiscard]] static std::pair<std::vector<int>, bool> awaited_by(const ThreadMember& me)
  {
    const auto& call = *me.call;
    std::pair<std::vector<int>, bool> ranks;
    auto& [late, called] = ranks;
    for (const auto& m : call.members)
      if (!m.posted) late.push_back(m.world_rank);
    called = late.empty();
    if (!called) return ranks;
    for (const auto& m : call.members)
      if (&m != &me && !m.remaining.empty() &&
          (m.reads_on || call.open(m.remaining.front().waits_for)))
        late.push_back(m.world_rank);
    return ranks;
  }

  ThreadCall& find(int from, int to, std::uint64_t number)
  {
    for (auto* c : under_way_)
      if (c->number == number && c->from == from && c->to == to) return *c;
    auto fits = [&](const ThreadCall* c) { return (c->from >= 0) == (from >= 0); };
    const auto spare = std::find_if(spare_.rbegin(), spare_.rend(), fits);
    auto* call = spare != spare_.rend() ? *spare : &calls_.emplace_back();
    if (spare != spare_.rend()) spare_.erase(std::next(spare).base());
    if (from >= 0) call->members.clear();
    call->group = this;
    call->from = from;
    call->to = to;
    call->number = number;
    under_way_.push_back(call);
    return *call;
  }

  /// Ends the call of `me` for all its ranks; returns when nobody reads this rank's buffers.
  void revoke(ThreadMember& me)
  {
    auto& call = *me.call;
    {
      // Those who read on may be asleep in another call: they wake before they are waited for.
      ThreadScheduler::Wakes wakes{*world_, me.world_rank};
      const std::lock_guard lock{mutex_};
      world_->remove(me.world_rank, me);
      stop_reading(me);
      if (call.revoked_by < 0) call.revoked_by = me.world_rank;
      for (const auto& m : call.members)
        if (m.posted && !m.remaining.empty() && &m != &me) wakes.add(m.world_rank);
    }
    std::unique_lock lock{mutex_};
    drained_.wait(lock, [&] { return call.readers == 0; });
  }

  /// One reader less.
  void read(ThreadCall& call)
  {
    if (--call.readers == 0 && call.revoked_by >= 0) drained_.notify_all();
  }
  void stop_reading(ThreadMember& me)
  {
    if (std::exchange(me.reads_on, false)) read(*me.call);
  }

  void recycle(ThreadCall& call)
  {
    call.gates = {};
    call.left = 0;
    for (auto& m : call.members) m.posted = false;
    std::erase(under_way_, &call);
    spare_.push_back(&call);
  }

  static void signal(ThreadCall& call, Gate gate, ThreadScheduler::Wakes& wakes)
  {
    ++call.gates[static_cast<std::size_t>(gate)];
    if (!call.open(gate)) return;
    for (const auto& m : call.members)
      if (m.posted && !m.remaining.empty() && m.remaining.front().waits_for == gate)
        wakes.add(m.world_rank);
  }

  [[nodiscard]] std::string mismatch(const ThreadCall& call, Signature mine, Collective called,
                                     int world_rank) const
  {
    auto first = call.signature;
    if (call.from >= 0)
    {
      mine.collective = called;
      first.collective = called == Collective::send ? Collective::receive : Collective::send;
    }
    return "rank " + std::to_string(world_rank) + " called " + detail::text(mine) + ", but rank " +
           std::to_string(call.first_rank) + " called " + detail::text(first) + " as call " +
           std::to_string(call.number) + where(call) +
           ", so neither can complete; let all its ranks make the same calls in the same order, "
           "with the same element type, size, root and operation";
  }

  [[nodiscard]] std::string where(const ThreadCall& call) const
  {
    return detail::where(call, ranks_);
  }
  [[nodiscard]] std::string text(const ThreadCall& call) const
  {
    return detail::text(call.signature) + where(call);
  }

  std::shared_ptr<ThreadScheduler> world_;
  std::vector<int> ranks_;
  mutable std::mutex mutex_;
  std::condition_variable drained_;
  std::vector<std::uint64_t> next_;
  std::vector<std::uint64_t> splits_;
  std::map<std::pair<std::uint64_t, int>, std::pair<std::shared_ptr<ThreadGroup>, std::size_t>>
      children_;
  std::map<std::tuple<int, int, Collective>, std::uint64_t> messages_;
  std::deque<ThreadCall> calls_;
  std::vector<ThreadCall*> under_way_;
  std::vector<ThreadCall*> spare_;
};

inline bool ThreadMember::advance() { return call->group->advance(*this); }
inline std::string ThreadMember::describe() const { return call->group->describe(*this); }
inline std::vector<int> ThreadMember::awaited() const { return call->group->awaited(*this); }

}  // namespace cubist::detail
