// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A group of simulated ranks: when their calls begin and end, and how they wait for them.
// One rank runs at a time, so nothing is locked. Where ranks are folded (simulation/folding.hpp),
// only those that run are members of calls.

#include <algorithm>
#include <cstddef>
#include <functional>
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
  /// @param ranks the communicator's ranks in order, by their numbers in the launch
  SimulatedGroup(std::shared_ptr<Simulation> simulation, const std::vector<int>& ranks)
      : RankGroup{running(*simulation, ranks), {}},
        simulation_{std::move(simulation)},
        placement_{machine(), links(), ranks}
  {
    if (this->ranks().size() == ranks.size()) return;
    for (const int rank : ranks)
      places_.push_back(place_of(this->ranks(), folding().representative(rank)));
  }

  /// The number of ranks of the communicator, some of which may be folded.
  [[nodiscard]] int size() const { return static_cast<int>(placement_.size()); }
  /// The rank of the launch at a position in the communicator.
  [[nodiscard]] int rank_of(std::size_t position) const { return placement_.ranks()[position]; }
  /// The place of a rank, or of its representative, among those that run.
  [[nodiscard]] std::size_t place(int rank) const
  {
    const auto position = static_cast<std::size_t>(rank);
    return places_.empty() ? position : places_[position];
  }
  /// Returns the sender and receiver of the message that stands for this one, so that the sender
  /// runs. Replicas send the same messages, so one of them stands for all.
  [[nodiscard]] std::pair<int, int> ends(int from, int to) const
  {
    if (places_.empty()) return {from, to};
    const int sender = rank_of(static_cast<std::size_t>(from));
    const int receiver = folding().move_with(sender, rank_of(static_cast<std::size_t>(to)));
    return {position_of(folding().representative(sender)), position_of(receiver)};
  }

  [[nodiscard]] Simulation& simulation() const { return *simulation_; }
  [[nodiscard]] bool remote() const { return placement_.top() > 0; }
  [[nodiscard]] bool exposes() const { return machine().shared_memory && !remote(); }
  [[nodiscard]] int cores() const { return std::max(1, static_cast<int>(machine().cores)); }
  /// Whether a collective must be complete when `start` returns.
  [[nodiscard]] bool completes_at_start() const { return remote() && !simulation_->overlap(); }

  /// Starts a rank's part in its next call, and reports what the rank sends.
  template <Element T>
  Member& start(int rank, const cubist::Call<T>& call)
  {
    auto& traffic = simulation_->rank(rank_of(static_cast<std::size_t>(rank))).report.traffic;
    traffic.add(call.kind, sent_by(call, rank, size()));
    return post(rank, call);
  }

  /// Posts a rank's part in its next call.
  /// @throws CollectiveMismatch, and what Simulation::block throws; ArgumentError for a call in
  /// which folded replicas would have different parts
  Member& post(int rank, const ErasedCall& mine)
  {
    simulation_->raise();
    require<ArgumentError>(places_.empty() || !has_root(mine.kind), "got a ", to_string(mine.kind),
                           " along folded ranks, one of which stands for the others, but the root "
                           "does not do what they do, so their times would be wrong; simulate all "
                           "replicas, without Simulated::options.replicas");
    Member& member = next(rank, mine, [&](const std::string& why) {
      simulation_->fail(Simulation::Failure::mismatch, why);
    });
    SimulatedCall& call = *member.call;
    SimulatedRank& me = *member.rank;
    member.posts = me.clock;
    call.posts = std::max(call.posts, ++me.posts);
    // A rank that only receives may come later, because the messages to it are under way.
    const bool are_buffered = buffers(call);
    if (!are_buffered || !call.only_receives(member)) call.begins = std::max(call.begins, me.clock);
    if (call.posted() == call.members.size())
      places_.empty() || call.is_message() ? call.transfer() : transfer_to_running(call);
    if (are_buffered && call.is_chain())
      SimulatedChain{*simulation_, call, shared_from_this()}.proceed();
    else if (!call.begun && call.may_begin(are_buffered))
      begin(call);
    return member;
  }

  void wait(Member& me)
  {
    if (ends_at_once(me)) return;
    block_until(me, [&] { return me.ends; });
    copy_from_node(me);
  }

  /// Returns whether the call is complete. A test takes time, so that a rank that tests again and
  /// again reaches the end of the call.
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
    block_until(me, [&] { return me.call->opens; });
  }
  /// Records that a rank no longer reads its peers' blocks.
  void close(Member& me)
  {
    wait_open(me);
    SimulatedCall& call = *me.call;
    call.begins = std::max(call.begins, me.rank->clock);
    if (++call.closed == call.members.size()) end(call, call.begins);
  }

  void release(Member& me) { leave(*me.call); }

  /// Leaves a call before its end, so that the ranks that wait for it throw PeerFailed.
  void abandon(Member& me)
  {
    SimulatedCall& call = *me.call;
    if (me.ends < SimulatedCall::not_yet) return release(me);
    call.left_by = me.rank->number;
    wake(call, me.rank->clock);
  }

  /// Locks nothing, because one rank runs at a time.
  struct NoLock
  {
    ~NoLock() {}
  };
  [[nodiscard]] NoLock lock() const { return {}; }
  void adopt(SimulatedCall& call)
  {
    call.group = this;
    for (auto& m : call.members) m.rank = &simulation_->rank(m.world_rank);
    if (!call.is_message()) return;
    call.sender = rank_of(static_cast<std::size_t>(call.from));
    call.receiver = rank_of(static_cast<std::size_t>(call.to));
  }
  /// Makes a group of ranks, or returns null if none of them runs.
  [[nodiscard]] std::shared_ptr<SimulatedGroup> make(const std::vector<int>& ranks) const
  {
    if (std::ranges::none_of(ranks, [&](int r) { return folding().runs(r); })) return nullptr;
    return std::make_shared<SimulatedGroup>(simulation_, ranks);
  }

  /// Returns the group of all ranks with this rank's colour, and the position of the rank in it.
  /// @throws ArgumentError if ranks are folded, because those pass no colour
  std::pair<std::shared_ptr<SimulatedGroup>, int> split(int rank, int colour, int key)
  {
    require<ArgumentError>(
        places_.empty(), "got a split by the colours that ranks pass, but some of these ranks are "
                         "folded and pass none; split by a function, as meshes do, or simulate "
                         "all replicas, without Simulated::options.replicas");
    return RankGroup::split(rank, colour, key);
  }
  /// Splits by the colours colour_of(rank) of all ranks, which keep their order.
  std::pair<std::shared_ptr<SimulatedGroup>, int> split_by(int rank,
                                                           const std::function<int(int)>& colour_of)
  {
    return RankGroup::split(rank, colour_of(rank), rank, [&](auto& split) {
      for (int r = 0; r < size() && !places_.empty(); ++r)
        split.give(static_cast<std::size_t>(r), colour_of(r), r);
    });
  }

 private:
  [[nodiscard]] static std::vector<int> running(const Simulation& simulation,
                                                const std::vector<int>& ranks)
  {
    std::vector<int> some;
    for (const int r : ranks)
      if (simulation.folding().runs(r)) some.push_back(r);
    return some;
  }
  /// Returns the place of a rank in a list.
  /// @throws ArgumentError if it is not there
  [[nodiscard]] static std::size_t place_of(const std::vector<int>& list, int rank)
  {
    auto found = std::ranges::lower_bound(list, rank);
    if (found == list.end() || *found != rank) found = std::ranges::find(list, rank);
    require<ArgumentError>(found != list.end(), "got a communicator without rank ", rank,
                           ", which stands for some of its ranks, so their times are unknown; "
                           "simulate all replicas, without Simulated::options.replicas");
    return static_cast<std::size_t>(found - list.begin());
  }
  [[nodiscard]] int position_of(int rank) const
  {
    return static_cast<int>(place_of(placement_.ranks(), rank));
  }
  [[nodiscard]] const Folding& folding() const { return simulation_->folding(); }
  [[nodiscard]] std::uint64_t turn_of(const SimulatedCall& call) const
  {
    if (!call.is_message())
      return Simulation::turn_of(call.posts, last_rank_ - first_rank_, first_rank_);
    return Simulation::turn_of(call.posts, (call.to - call.from + size()) % size(),
                               links().place_on_node(call.sender));
  }

  /// Gives each running rank what it receives from all ranks, as if all replicas sent the same.
  /// @pre all ranks that run have posted the call
  void transfer_to_running(SimulatedCall& call) const
  {
    if (call.left_by >= 0 || call.is_simulated()) return;
    const std::size_t bytes = call.signature.bytes();
    std::vector<const std::byte*> sent;
    for (int r = 0; r < size(); ++r) sent.push_back(call.members[place(r)].send);
    std::vector<std::byte> sum(call.signature.kind == CallKind::all_reduce ? bytes : 0);
    const MixedMemory memory;
    if (!sum.empty()) memory.combine(call.signature, sent, 0, call.signature.count, sum.data());
    for (const auto& m : call.members) switch (call.signature.kind)
      {
      case CallKind::all_gather:
        for (std::size_t r = 0; r < sent.size() && m.recv != nullptr; ++r)
          memory.copy(m.recv + r * bytes, sent[r], bytes);
        break;
      case CallKind::all_reduce:
        memory.copy(m.recv, sum.data(), bytes);
        break;
      case CallKind::reduce_scatter:
      {
        const auto position = static_cast<std::size_t>(position_of(m.world_rank));
        memory.combine(call.signature, sent, position * call.signature.count, call.signature.count,
                       m.recv);
        break;
      }
      case CallKind::expose:
        break;
      default:
        throw ArgumentError{std::string{"got a "} + to_string(call.signature.kind) +
                            " of host memory along folded ranks, whose data is unknown; "
                            "simulate all replicas, without Simulated::options.replicas"};
      }
  }

  [[nodiscard]] const Machine& machine() const { return simulation_->machine(); }
  [[nodiscard]] const SimulatedLinks& links() const { return simulation_->links(); }

  /// Whether a rank's part ends as soon as the rank posts it.
  [[nodiscard]] bool ends_at_once(const Member& me) const
  {
    return me.call->only_sends(me) && buffers(*me.call);
  }

  /// Whether messages of a call leave before their receivers wait for them. MPI buffers short
  /// messages between nodes, but not inside a node. Data in host memory is not buffered here
  /// either.
  [[nodiscard]] bool buffers(const SimulatedCall& call) const
  {
    if (machine().algorithms != CollectiveAlgorithms::mpi || !call.is_simulated()) return false;
    if (call.is_message()) return !call.is_within_node(links());
    return placement_.top() > 0 && placement_.units(1).size() == placement_.size();
  }

  /// Waits until the time that time() returns.
  template <class Time>
  void block_until(Member& me, Time time)
  {
    const double posted = me.rank->clock;
    while (time() == SimulatedCall::not_yet)
    {
      if (me.call->left_by >= 0) throw me.call->left_error(me);
      me.waits = true;
      simulation_->block(*me.rank, me);
      me.waits = false;
    }
    me.rank->clock = std::max(me.rank->clock, time());
    me.rank->report.waits += me.rank->clock - posted;
  }

  [[nodiscard]] SimulatedCollective collective_of(const SimulatedCall& call) const
  {
    if (call.is_message()) return {CallKind::send, call.bytes(), 0, 1};
    return {call.signature.kind, call.bytes(), call.signature.peer};
  }

  /// Begins a call that all ranks with something to send have posted.
  void begin(SimulatedCall& call)
  {
    call.begun = true;
    if (call.left_by >= 0) return;
    if (call.is_message() && call.from == call.to) return end(call, call.begins);
    const auto what = collective_of(call);
    auto cost = call.is_message()
                    ? message_cost(machine(), links(), call.sender, call.receiver, what.bytes)
                    : collective_cost(machine(), links(), placement_, what);
    const double ready = call.begins + cost.latency;
    if (what.kind == CallKind::expose)
    {
      call.opens = ready;
      return wake(call, ready);
    }
    if (cost.seconds == 0) return end(call, ready);
    simulation_->start(
        ready, cost.seconds, std::move(cost.uses),
        [group = shared_from_this(), &call](double time) { group->end(call, time); },
        turn_of(call));
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

  /// Adds the time in which a rank itself copies what has arrived from others on its node.
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
  int first_rank_ = *std::ranges::min_element(placement_.ranks());
  int last_rank_ = *std::ranges::max_element(placement_.ranks());
  std::vector<std::size_t> places_;  // of each rank's representative; empty if none is folded
};

inline std::string SimulatedMember::describe() const { return call->describe(*this, {}); }

}  // namespace cubist::CUBIST_ABI::detail
