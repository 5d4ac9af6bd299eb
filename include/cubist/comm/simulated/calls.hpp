// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The calls in flight of one simulated communicator. The n-th collective of each rank, or the n-th
// message of each pair, are the same call.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/simulated/call.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI::detail
{

class SimulatedCalls
{
 public:
  /// @param ranks of the launch, in the order of the communicator
  SimulatedCalls(Simulation& simulation, const std::vector<int>& ranks)
      : next_(ranks.size(), 0), messages_(ranks.size())
  {
    for (const int r : ranks) ranks_.push_back(&simulation.rank(r));
  }

  /// The part of a rank in its next call: a collective, or a message to or from `peer`.
  SimulatedMember& next(int rank, Collective collective, int peer)
  {
    const auto index = static_cast<std::size_t>(rank);
    if (!is_message(collective)) return find(-1, -1, next_[index]++).members[index];
    const bool sends = collective == Collective::send;
    auto& call = find(sends ? rank : peer, sends ? peer : rank, messages_[index][{peer, sends}]++);
    return call.members[sends ? 0 : 1];
  }

  /// A rank has left a call. The last one ends it.
  void leave(SimulatedCall& call)
  {
    if (++call.left < call.members.size()) return;
    call.reset();
    std::erase(in_flight_, &call);
    unused_.push_back(&call);
  }

 private:
  SimulatedCall& find(int from, int to, std::uint64_t number)
  {
    for (auto* c : in_flight_)
      if (c->number == number && c->from == from && c->to == to) return *c;
    const auto fits = [&](const SimulatedCall* c) { return c->is_message() == (from >= 0); };
    const auto unused = std::find_if(unused_.begin(), unused_.end(), fits);
    SimulatedCall* call = unused != unused_.end() ? *unused : &calls_.emplace_back();
    if (unused != unused_.end()) unused_.erase(unused);
    const bool is_enrolled = !call->members.empty() && from < 0;
    call->from = from;
    call->to = to;
    call->number = number;
    if (!is_enrolled) enrol(*call);
    in_flight_.push_back(call);
    return *call;
  }

  /// All ranks; or of a message, which may be one to the rank itself, sender and receiver.
  void enrol(SimulatedCall& call)
  {
    call.members.resize(call.is_message() ? 2 : ranks_.size());
    for (std::size_t i = 0; i < call.members.size(); ++i)
    {
      const auto rank =
          call.is_message() ? static_cast<std::size_t>(i == 0 ? call.from : call.to) : i;
      call.members[i].call = &call;
      call.members[i].index = i;
      call.members[i].rank = ranks_[rank];
    }
  }

  std::vector<SimulatedRank*> ranks_;
  std::vector<std::uint64_t> next_;
  // Of each rank, the number of its next message by peer, and whether it sends.
  std::vector<std::map<std::pair<int, bool>, std::uint64_t>> messages_;
  std::deque<SimulatedCall> calls_;
  std::vector<SimulatedCall*> in_flight_;
  std::vector<SimulatedCall*> unused_;
};

}  // namespace cubist::CUBIST_ABI::detail
