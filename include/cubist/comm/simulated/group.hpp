// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A group of simulated ranks: when their calls begin and end, and how they wait for them.
// One rank runs at a time, so nothing is locked.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/group.hpp"
#include "cubist/comm/simulated/call.hpp"
#include "cubist/comm/simulated/chain.hpp"
#include "cubist/comm/simulated/collective_cost.hpp"
#include "cubist/comm/simulated/placement.hpp"
#include "cubist/comm/traffic.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI::detail
{

class SimulatedGroup : public RankGroup<SimulatedGroup, SimulatedCall>
{
 public:
  /// @param ranks of the launch, in the order of the communicator
  SimulatedGroup(std::shared_ptr<Simulation> simulation, std::vector<int> ranks)
      : RankGroup{std::move(ranks), {}},
        simulation_{std::move(simulation)},
        placement_{machine(), links(), this->ranks()}
  {
  }

  [[nodiscard]] Simulation& simulation() const { return *simulation_; }
  [[nodiscard]] bool remote() const { return placement_.top() > 0; }
  [[nodiscard]] bool exposes() const { return machine().shared_memory && !remote(); }
  [[nodiscard]] int cores() const { return std::max(1, static_cast<int>(machine().cores)); }
  /// Whether a collective must be complete when `start` returns.
  [[nodiscard]] bool completes_at_start() const { return remote() && !simulation_->overlap(); }

  /// Reports what the rank sends, too.
  template <Element T>
  Member& start(int rank, const cubist::Call<T>& call)
  {
    auto& traffic = simulation_->rank(ranks()[static_cast<std::size_t>(rank)]).report.traffic;
    traffic.add(call.kind, sent_by(call, rank, size()));
    return post(rank, call);
  }

  /// @throws CollectiveMismatch, and what Simulation::block throws
  Member& post(int rank, const ErasedCall& mine)
  {
    simulation_->raise();
    Member& member = next(rank, mine, [&](const std::string& why) {
      simulation_->fail(Simulation::Failure::mismatch, why);
    });
    SimulatedCall& call = *member.call;
    const SimulatedRank& me = *member.rank;
    member.posts = me.clock;
    // A rank that only receives may come later, because the messages to it are under way.
    const bool are_buffered = buffers(call);
    if (!are_buffered || !call.only_receives(member)) call.begins = std::max(call.begins, me.clock);
    if (call.posted() == call.members.size()) call.transfer();
    if (are_buffered && call.is_chain())
      SimulatedChain{*simulation_, call, shared_from_this()}.proceed();
    else if (!call.begun && call.may_begin(are_buffered))
      begin(call);
    return member;
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
    SimulatedCall& call = *me.call;
    call.begins = std::max(call.begins, me.rank->clock);
    if (++call.closed == call.members.size()) end(call, call.begins);
  }

  void release(Member& me) { leave(*me.call); }

  /// The ranks that wait for the call throw PeerFailed.
  void abandon(Member& me)
  {
    SimulatedCall& call = *me.call;
    if (me.ends < SimulatedCall::not_yet) return release(me);
    call.left_by = me.rank->number;
    for (auto& m : call.members)
      if (m.waits) simulation_->make_ready(*m.rank, me.rank->clock);
  }

  /// One rank runs at a time.
  struct NoLock
  {
    ~NoLock() {}
  };
  [[nodiscard]] NoLock lock() const { return {}; }
  void adopt(SimulatedCall& call)
  {
    call.group = this;
    for (auto& m : call.members) m.rank = &simulation_->rank(m.world_rank);
  }
  [[nodiscard]] std::shared_ptr<SimulatedGroup> make(std::vector<int> ranks) const
  {
    return std::make_shared<SimulatedGroup>(simulation_, std::move(ranks));
  }

 private:
  [[nodiscard]] const Machine& machine() const { return simulation_->machine(); }
  [[nodiscard]] const SimulatedLinks& links() const { return simulation_->links(); }

  /// The end of a call's transfers.
  struct Transfers final : ActivityOwner
  {
    Transfers(std::shared_ptr<SimulatedGroup> g, SimulatedCall& c)
        : group{std::move(g)},
          call{c}
    {
    }
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
      if (me.call->left_by >= 0) throw me.call->left_error(me);
      me.waits = true;
      simulation_->block(*me.rank, me);
      me.waits = false;
    }
    me.rank->clock = std::max(me.rank->clock, time());
  }

  [[nodiscard]] SimulatedCollective collective_of(const SimulatedCall& call) const
  {
    if (call.is_message()) return {CallKind::send, call.bytes(), 0, 1};
    return {call.signature.kind, call.bytes(), call.signature.peer};
  }

  /// Called when all ranks that send something have posted the call.
  void begin(SimulatedCall& call)
  {
    call.begun = true;
    if (call.left_by >= 0) return;
    if (call.is_message() && call.from == call.to) return end(call, call.begins);
    const auto what = collective_of(call);
    auto cost = call.is_message() ? message_cost(machine(), links(), call.members[0].rank->number,
                                                 call.members[1].rank->number, what.bytes)
                                  : collective_cost(machine(), links(), placement_, what);
    const double ready = call.begins + cost.latency;
    if (what.kind == CallKind::expose) return open(call, ready);
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

  /// The time in which a rank itself copies what has arrived from others on its node.
  void copy_from_node(Member& me)
  {
    const Link& inside = machine().links.front();
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
  SimulatedPlacement placement_;
};

inline std::string SimulatedMember::describe() const { return call->describe(*this, {}); }

}  // namespace cubist::CUBIST_ABI::detail
