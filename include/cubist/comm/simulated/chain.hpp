// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A broadcast or a reduce along a chain of ranks, each on its own node. Edge e takes the block from
// the e-th rank of the chain to the next one:
//
//   it begins   when its sender has posted the call, and the first segment has arrived there
//   it ends     when its bytes are transferred, but no earlier than one segment after the edge
//               before it
//
// Then the receiver's part of the call ends; it does not wait for the ranks after it.
//
// Source: comm/mpi/collectives/chain.hpp.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/simulated/call.hpp"
#include "cubist/comm/simulated/collective_cost.hpp"
#include "cubist/simulation/simulation.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Begins the edges of a call that can begin, and ends the parts of ranks that have received all.
/// @pre the call is a broadcast or a reduce of simulated data
struct SimulatedChain
{
  Simulation& simulation;
  SimulatedCall& call;
  std::shared_ptr<void> owner;  // keeps the call while the chain uses it

  void proceed()
  {
    while (call.left_by < 0 && edges().size() + 1 < call.members.size())
    {
      const std::size_t e = edges().size();
      const SimulatedMember& sender = member(e);
      if (!sender.posted) return;
      // A single message is forwarded when all of it has arrived; the messages of a longer block
      // are forwarded while others arrive.
      if (e > 0 && is_one_message() && edges()[e - 1].arrives == SimulatedCall::not_yet) return;
      begin_edge(e, sender);
    }
  }

  [[nodiscard]] std::vector<SimulatedEdge>& edges() const { return call.edges; }
  /// The rank at a place in the chain.
  [[nodiscard]] SimulatedMember& member(std::size_t index) const
  {
    const std::size_t first = call.signature.kind == CallKind::reduce ? 1 : 0;
    const auto root = static_cast<std::size_t>(call.signature.peer);
    return call.members[(root + first + index) % call.members.size()];
  }
  [[nodiscard]] double bytes() const { return call.bytes(); }
  [[nodiscard]] double segment() const
  {
    return std::min(bytes(), simulation.machine().segment_bytes);
  }
  [[nodiscard]] bool is_one_message() const { return segment() == bytes(); }

  void begin_edge(std::size_t e, const SimulatedMember& sender)
  {
    const auto& machine = simulation.machine();
    auto cost = message_cost(machine, simulation.links(), sender.rank->number,
                             member(e + 1).rank->number, bytes());
    const double of_segment = bytes() == 0 ? 0 : cost.seconds * segment() / bytes();
    double begins = sender.posts;
    if (e > 0)
    {
      const SimulatedEdge& before = edges()[e - 1];
      begins = std::max(begins, is_one_message() ? before.arrives : before.begins + of_segment);
    }
    begins += cost.latency;
    edges().push_back({begins, cost.latency + of_segment});
    if (cost.seconds == 0) return end_edge(e, begins);
    const auto [first, last] = std::minmax(sender.rank->number, member(e + 1).rank->number);
    simulation.start(
        begins, cost.seconds, std::move(cost.uses),
        [chain = *this, e](double time) mutable { chain.end_edge(e, time); },
        Simulation::turn_of(call.posts, last - first, first));
  }

  /// Ends an edge whose bytes are transferred, and begins the edges that can begin now.
  void end_edge(std::size_t e, double time)
  {
    edges()[e].ends = time;
    for (std::size_t i = 0; i < edges().size(); ++i)
    {
      SimulatedEdge& edge = edges()[i];
      if (edge.ends == SimulatedCall::not_yet) return;
      if (edge.arrives < SimulatedCall::not_yet) continue;
      const double before = i == 0 ? 0 : edges()[i - 1].arrives + edge.segment_seconds;
      edge.arrives = std::max(edge.ends, before);
      SimulatedMember& receiver = member(i + 1);
      receiver.ends = edge.arrives;
      if (receiver.waits) simulation.make_ready(*receiver.rank, edge.arrives);
    }
    proceed();
  }
};

}  // namespace cubist::CUBIST_ABI::detail
