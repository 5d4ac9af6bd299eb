// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ranks of one simulated communicator: what they post, when it ends, and how they wait for it.
// One rank runs at a time, so nothing is locked.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/comm/simulated/call.hpp"
#include "cubist/comm/simulated/calls.hpp"
#include "cubist/comm/simulated/chain.hpp"
#include "cubist/comm/simulated/collective_cost.hpp"
#include "cubist/comm/simulated/placement.hpp"
#include "cubist/comm/simulated/split.hpp"
#include "cubist/comm/traffic.hpp"
#include "cubist/core/error.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI::detail
{

class SimulatedGroup : public std::enable_shared_from_this<SimulatedGroup>
{
 public:
  using Member = SimulatedMember;

  /// @param ranks of the launch, in the order of the communicator
  SimulatedGroup(std::shared_ptr<Simulation> simulation, std::vector<int> ranks)
      : simulation_{std::move(simulation)}, ranks_{std::move(ranks)},
        placement_{machine(), links(), ranks_}, calls_{*simulation_, ranks_},
        splits_(ranks_.size(), 0)
  {
  }

  [[nodiscard]] Simulation& simulation() const { return *simulation_; }
  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] const SimulatedPlacement& placement() const { return placement_; }
  /// Whether a collective must be complete when `start` returns.
  [[nodiscard]] bool completes_at_start() const
  {
    return placement_.top() > 0 && !simulation_->overlap();
  }

  /// @throws CollectiveMismatch, and what Simulation::block throws
  template <Element T>
  Member& post(int rank, const Call<T>& c)
  {
    auto& traffic = simulation_->rank(ranks_[static_cast<std::size_t>(rank)]).report.traffic;
    traffic.add(c.collective, sent_by(c, rank, static_cast<int>(ranks_.size())));
    return post(rank, c.collective, c.peer, SimulatedSignature::of(c),
                reinterpret_cast<const std::byte*>(c.send.data()),
                reinterpret_cast<std::byte*>(c.recv.data()));
  }

  void wait(Member& me)
  {
    if (ends_at_once(me)) return;
    SimulatedRank& rank = *me.rank;
    const double posted = rank.clock;
    block_until(me, [&] { return me.ends; });
    rank.report.waits += rank.clock - posted;
    copy_from_node(me);
  }

  /// Time passes, so that a rank that tests again and again comes to the end of the call.
  bool test(Member& me)
  {
    if (ends_at_once(me)) return true;
    constexpr double seconds_of_a_test = 1e-6;
    SimulatedRank& rank = *me.rank;
    rank.clock += seconds_of_a_test;
    simulation_->catch_up(rank);
    if (me.ends > rank.clock) return false;
    copy_from_node(me);
    return true;
  }

  /// Waits until all ranks have exposed their blocks.
  void wait_open(Member& me)
  {
    const double posted = me.rank->clock;
    block_until(me, [&] { return me.call->opens; });
    me.rank->report.waits += me.rank->clock - posted;
  }
  /// A rank no longer reads its peers' blocks.
  void close(Member& me)
  {
    if (std::exchange(me.closed, true)) return;
    SimulatedCall& call = *me.call;
    call.begins = std::max(call.begins, me.rank->clock);
    if (++call.closed == call.members.size()) end(call, call.begins);
  }

  void release(Member& me) { calls_.leave(*me.call); }

  /// The ranks that wait for the call throw PeerFailed.
  void abandon(Member& me)
  {
    SimulatedCall& call = *me.call;
    if (me.ends < SimulatedCall::not_yet) return release(me);
    call.abandoned_by = me.rank->number;
    for (auto& m : call.members)
      if (m.waits) simulation_->make_ready(*m.rank, me.rank->clock);
  }

  /// The group of all ranks with the colour of `rank`, and its position there.
  std::pair<std::shared_ptr<SimulatedGroup>, int> split(int rank, int colour, int key)
  {
    const auto index = static_cast<std::size_t>(rank);
    const auto number = splits_[index]++;
    auto& pending = pending_splits_[number];
    if (pending == nullptr)
      pending = std::make_shared<SimulatedSplit<SimulatedGroup>>(ranks_.size());
    const auto mine = pending;
    mine->give(index, colour, key);
    const Call<int> call{Collective::all_gather, {}, {}, 2};
    PendingCall{shared_from_this(),
                post(rank, call.collective, 0, SimulatedSignature::of(call), nullptr, nullptr)}
        .wait();
    pending_splits_.erase(number);
    return mine->group_of(index, [this](const std::vector<std::size_t>& members) {
      std::vector<int> ranks;
      for (const std::size_t r : members) ranks.push_back(ranks_[r]);
      return std::make_shared<SimulatedGroup>(simulation_, std::move(ranks));
    });
  }

 private:
  [[nodiscard]] const SimulatedMachine& machine() const { return simulation_->machine(); }
  [[nodiscard]] const SimulatedLinks& links() const { return simulation_->links(); }

  /// The end of a call's transfers.
  struct Transfers final : ActivityOwner
  {
    Transfers(std::shared_ptr<SimulatedGroup> g, SimulatedCall& c) : group{std::move(g)}, call{c} {}
    void complete(double time) override { group->end(call, time); }

    std::shared_ptr<SimulatedGroup> group;
    SimulatedCall& call;
  };

  /// Whether a rank's part ends when it posts it.
  [[nodiscard]] bool ends_at_once(const Member& me) const
  {
    return me.call->only_sends(me) && buffers(*me.call);
  }

  [[nodiscard]] bool buffers(const SimulatedCall& call) const
  {
    return is_buffered(call, machine(), links(), placement_);
  }

  template <class Time>
  void block_until(Member& me, Time time)
  {
    while (time() == SimulatedCall::not_yet)
    {
      throw_if_abandoned(me);
      me.waits = true;
      simulation_->block(*me.rank, me);
      me.waits = false;
    }
    me.rank->clock = std::max(me.rank->clock, time());
  }

  void throw_if_abandoned(const Member& me) const
  {
    const SimulatedCall& call = *me.call;
    if (call.abandoned_by < 0) return;
    throw PeerFailed{"rank " + std::to_string(call.abandoned_by) + " left " + text(call.signature) +
                     " on ranks " + rank_list(ranks_) + " before its end, so rank " +
                     std::to_string(me.rank->number) +
                     " cannot complete it; look for the error of that rank"};
  }

  Member& post(int rank, Collective collective, int peer, const SimulatedSignature& signature,
               const std::byte* send, std::byte* recv)
  {
    simulation_->raise();
    Member& member = calls_.next(rank, collective, peer);
    SimulatedCall& call = *member.call;
    call.group = this;
    const SimulatedRank& me = *member.rank;
    if (call.posted == 0)
    {
      call.signature = signature;
      call.first_rank = me.number;
    }
    else if (call.signature != signature)
    {
      const auto why = mismatch_text(call, signature, collective, me.number, ranks_);
      simulation_->fail(Simulation::Failure::mismatch, why);
      throw CollectiveMismatch{why};
    }
    member.send = send;
    member.recv = recv;
    member.posted = true;
    member.posts = me.clock;
    ++call.posted;
    // Who only receives may come later: the messages to it are under way.
    const bool are_buffered = buffers(call);
    if (!are_buffered || !call.only_receives(member)) call.begins = std::max(call.begins, me.clock);
    if (call.posted == call.members.size()) call.transfer();
    if (are_buffered && call.is_chain())
      SimulatedChain{*simulation_, call, shared_from_this()}.proceed();
    else if (!call.begun && call.may_begin(are_buffered))
      begin(call);
    return member;
  }

  [[nodiscard]] SimulatedCollective collective_of(const SimulatedCall& call) const
  {
    if (call.is_message()) return {Collective::send, call.bytes(), 0, 1};
    return {call.signature.collective, call.bytes(), call.signature.peer};
  }

  /// All ranks have posted the call that send something.
  void begin(SimulatedCall& call)
  {
    call.begun = true;
    if (call.abandoned_by >= 0) return;
    if (call.is_message() && call.from == call.to) return end(call, call.begins);
    const auto what = collective_of(call);
    auto cost = call.is_message() ? message_cost(machine(), links(), call.members[0].rank->number,
                                                 call.members[1].rank->number, what.bytes)
                                  : collective_cost(machine(), links(), placement_, what);
    const double ready = call.begins + cost.latency;
    if (what.collective == Collective::expose) return open(call, ready);
    if (cost.seconds == 0) return end(call, ready);
    simulation_->start(ready, cost.seconds, std::move(cost.uses),
                       std::make_shared<Transfers>(shared_from_this(), call));
  }

  void open(SimulatedCall& call, double time)
  {
    call.opens = time;
    wake(call, time);
  }
  void end(SimulatedCall& call, double time)
  {
    for (auto& m : call.members) m.ends = time;
    wake(call, time);
  }
  void wake(SimulatedCall& call, double time)
  {
    for (auto& m : call.members)
      if (m.waits) simulation_->make_ready(*m.rank, time);
  }

  /// The time of what a rank itself copies, of what arrived from others on its node.
  void copy_from_node(Member& me)
  {
    const SimulatedLink& inside = machine().links.front();
    const SimulatedCall& call = *me.call;
    if (inside.overlaps) return;
    const auto what = collective_of(call);
    double bytes = 0;
    if (call.is_message())
      bytes = me.index == 1 && call.is_within_node(links()) ? what.bytes : 0;
    else
      bytes = copied_bytes(placement_, placement_.on_node(links(), me.rank->number), what,
                           static_cast<int>(me.index) == what.root);
    SimulatedRank& rank = *me.rank;
    const double before = rank.clock;
    simulation_->compute(rank, bytes / inside.bandwidth);
    rank.report.copies += rank.clock - before;
  }

  std::shared_ptr<Simulation> simulation_;
  std::vector<int> ranks_;
  SimulatedPlacement placement_;
  SimulatedCalls calls_;
  std::vector<std::uint64_t> splits_;  // that each rank has made
  std::map<std::uint64_t, std::shared_ptr<SimulatedSplit<SimulatedGroup>>> pending_splits_;
};

inline std::string SimulatedMember::describe() const
{
  std::string missing;
  for (const auto& m : call->members)
    if (!m.posted) missing += (missing.empty() ? "" : ", ") + std::to_string(m.rank->number);
  auto mine = call->signature;
  if (call->is_message() && index == 1) mine.collective = Collective::receive;
  return text(mine) + " on ranks " + rank_list(call->group->ranks()) +
         (missing.empty() ? ", which another rank has not completed"
                          : ", which ranks {" + missing + "} have not called");
}

}  // namespace cubist::CUBIST_ABI::detail
