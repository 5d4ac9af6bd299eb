// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What a collective costs on simulated links, by the algorithm that the backend would run.
//
// P ranks, of which a unit of some level holds c, on N units; pieces of b bytes. Bytes into and out
// of a unit:
//
//                    MPI into, out                    NCCL into, out
//   all_gather       (P-c) b, c (N-1) b               (P-1) b each, in a ring
//   reduce_scatter   c (P-c) b each                   (P-1) b each
//   all_reduce       2 c (P-c) b/P each               2 (P-1) b/P each
//   all_to_all       c (P-c) b each                   the same
//   broadcast        b, along a chain: not into the root's unit, nor out of the last one
//   reduce           b each time that the chain of ranks leaves a unit; NCCL: from unit to unit
//   gather, scatter  (P-c) b into, out of the root's unit; c b at the others
//   send             b
//
// An all_gather of MPI enters a node once, and is forwarded there (mpi/collectives/all_gather.hpp).
// Transfers between units of a level pass the links of that level and of those below it, but not
// the first ones, which are inside of nodes.
//
// A collective takes
//
//   latency    of the messages that follow each other: of one for direct exchange, two for an
//              all_reduce, and of each edge of a chain or a ring, with the time of a segment
//   then       the longest of bytes / bandwidth over all links, if it is alone
//
// Source: comm/mpi/collectives; Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms for
// clusters of workstations", 2009; Sanders, Speck, Träff, "Two-tree algorithms for full bandwidth
// broadcast, reduction and scan", 2009.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/simulated/placement.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/simulation/activities.hpp"
#include "cubist/simulation/links.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A collective as a cost sees it.
struct SimulatedCollective
{
  Collective collective;
  double bytes;  // of a piece
  int root = 0;  // position in the communicator: root, or sender of a message
  int peer = 0;  // position of the rank that receives a message
};

struct CollectiveCost
{
  double latency = 0;  // seconds in which it uses nothing
  double seconds = 0;  // then, if it is alone
  std::vector<ResourceUse> uses = {};
};

/// Bytes into and out of a unit.
struct UnitBytes
{
  double in = 0;
  double out = 0;
};

[[nodiscard]] inline UnitBytes unit_bytes(const SimulatedMachine& machine,
                                          const SimulatedLinks& links,
                                          const SimulatedPlacement& placement, std::size_t level,
                                          std::size_t index, const SimulatedCollective& call)
{
  const auto& units = placement.units(level);
  const UnitMembers& here = units[index];
  const bool rings = machine.algorithms == SimulatedAlgorithms::nccl;
  const auto p = double(placement.size());
  const auto c = double(here.members);
  const auto n = double(units.size());
  const double b = call.bytes;
  const auto unit_of = [&](int position) { return links.unit(level, placement.rank(position)); };
  const bool has_root = unit_of(call.root) == here.unit;
  const bool has_peer = unit_of(call.peer) == here.unit;
  // Of two units that are neighbours in a chain from unit to unit, cyclically.
  const auto is_before = [&](std::size_t i, int position) {
    return units[(i + 1) % units.size()].unit == unit_of(position);
  };
  const auto both = [](double x) { return UnitBytes{x, x}; };
  switch (call.collective)
  {
  case Collective::all_gather:
    return rings ? both((p - 1) * b) : UnitBytes{(p - c) * b, c * (n - 1) * b};
  case Collective::reduce_scatter:
    return both(rings ? (p - 1) * b : c * (p - c) * b);
  case Collective::all_reduce:
    return both(2 * b / p * (rings ? p - 1 : c * (p - c)));
  case Collective::all_to_all:
    return both(c * (p - c) * b);
  case Collective::broadcast:
    return {has_root ? 0 : b, is_before(index, call.root) ? 0 : b};
  case Collective::reduce:
  {
    if (rings)
    {
      const std::size_t previous = (index + units.size() - 1) % units.size();
      return {units[previous].unit == unit_of(call.root) ? 0 : b, has_root ? 0 : b};
    }
    // All edges of the ring of ranks but the one from the root to its successor.
    const int first = unit_of(call.root + 1);
    const bool leaves = first != unit_of(call.root);
    const auto exits = double(here.exits);
    return {(leaves && first == here.unit ? exits - 1 : exits) * b,
            (leaves && has_root ? exits - 1 : exits) * b};
  }
  case Collective::gather:
    return has_root ? UnitBytes{(p - c) * b, 0} : UnitBytes{0, c * b};
  case Collective::scatter:
    return has_root ? UnitBytes{0, (p - c) * b} : UnitBytes{c * b, 0};
  case Collective::send:
  case Collective::receive:
    if (has_root == has_peer) return {};
    return has_root ? UnitBytes{0, b} : UnitBytes{b, 0};
  case Collective::barrier:
  case Collective::expose:
    return {};
  }
  return {};
}

/// The seconds before a collective's bytes flow: messages that wait for others.
[[nodiscard]] inline double latency_of(const SimulatedMachine& machine,
                                       const SimulatedPlacement& placement,
                                       const SimulatedCollective& call)
{
  const SimulatedLink& top = machine.links[placement.top()];
  const auto p = placement.size();
  const bool rings = machine.algorithms == SimulatedAlgorithms::nccl;
  // Along all ranks one after the other, with the time of a segment on each edge.
  const auto along = [&](double segment) {
    double sum = 0;
    std::size_t edges = p - 1;
    for (std::size_t level = placement.top() + 1; level-- > 0;)
    {
      const SimulatedLink& link = machine.links[level];
      const std::size_t here =
          level == 0 ? edges : std::min(edges, placement.units(level).size() - 1);
      sum += double(here) * (link.latency + segment / link.bandwidth);
      edges -= here;
    }
    return sum;
  };
  const double depth = double(std::bit_width(p - 1));
  switch (call.collective)
  {
  case Collective::barrier:
  case Collective::expose:
    return depth * top.latency;
  case Collective::broadcast:
  case Collective::reduce:
    return along(call.bytes > machine.segment_bytes ? machine.segment_bytes : 0);
  case Collective::all_gather:
  case Collective::reduce_scatter:
    return rings ? along(0) : top.latency;
  case Collective::all_reduce:
    return rings ? 2 * std::min(along(0), depth * top.latency) : 2 * top.latency;
  default:
    return top.latency;
  }
}

/// How many ranks of a unit send, and receive, its bytes.
[[nodiscard]] inline double ranks_that_transfer(const SimulatedMachine& machine,
                                                const UnitMembers& unit,
                                                const SimulatedCollective& call)
{
  switch (call.collective)
  {
  case Collective::broadcast:
  case Collective::reduce:
  case Collective::send:
  case Collective::receive:
    // NCCL cuts a chain into channels, which use the network cards of all members.
    return machine.algorithms == SimulatedAlgorithms::nccl ? double(unit.members) : 1;
  case Collective::gather:
  case Collective::scatter:
    return 1;
  default:
    return double(unit.members);
  }
}

[[nodiscard]] inline CollectiveCost collective_cost(const SimulatedMachine& machine,
                                                    const SimulatedLinks& links,
                                                    const SimulatedPlacement& placement,
                                                    const SimulatedCollective& call)
{
  CollectiveCost cost;
  if (placement.size() == 1) return cost;
  cost.latency = latency_of(machine, placement, call);

  struct Load
  {
    int resource;
    double seconds;  // if it were alone
  };
  std::vector<Load> loads;
  double core_seconds = 0;
  const std::size_t top = placement.top();
  for (std::size_t level = top == 0 ? 0 : 1; level <= top; ++level)
  {
    const SimulatedLink& link = machine.links[level];
    if (!link.overlaps) continue;  // copied by the ranks when they wait
    const auto& units = placement.units(level);
    for (std::size_t i = 0; i < units.size(); ++i)
    {
      const UnitBytes bytes = unit_bytes(machine, links, placement, level, i, call);
      const double ranks = ranks_that_transfer(machine, units[i], call);
      const double most = std::max(bytes.in, bytes.out);
      if (most == 0) continue;
      if (link.rank_bandwidth > 0)
        cost.seconds = std::max(cost.seconds, most / (ranks * link.rank_bandwidth));
      loads.push_back({links.into(level, units[i].unit), bytes.in / link.bandwidth});
      loads.push_back({links.out_of(level, units[i].unit), bytes.out / link.bandwidth});
      const double messages = std::max(1.0, most / machine.segment_bytes);
      core_seconds += (bytes.in + bytes.out) * link.core_seconds_per_byte +
                      2 * messages * link.core_seconds_per_message;
    }
  }
  // Cores that several nodes share are one resource; else each node's cores do their part.
  std::vector<int> cores;
  for (const auto& unit : placement.units(0)) cores.push_back(links.cores_of(unit.unit));
  std::sort(cores.begin(), cores.end());
  cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
  core_seconds /= double(cores.size()) * links.cores_together();
  if (core_seconds > 0)
    for (const int c : cores) loads.push_back({c, core_seconds});
  for (const Load& load : loads) cost.seconds = std::max(cost.seconds, load.seconds);
  for (const Load& load : loads)
    if (load.seconds > 0) cost.uses.push_back({load.resource, load.seconds / cost.seconds});
  return cost;
}

/// A message between two ranks of the launch.
[[nodiscard]] inline CollectiveCost message_cost(const SimulatedMachine& machine,
                                                 const SimulatedLinks& links, int from, int to,
                                                 double bytes)
{
  return collective_cost(machine, links, {machine, links, {from, to}},
                         {Collective::send, bytes, 0, 1});
}

/// The bytes that a rank copies when it waits for a collective, from others on its node, of whose
/// ranks `on_node` take part.
[[nodiscard]] inline double copied_bytes(const SimulatedPlacement& placement, std::size_t on_node,
                                         const SimulatedCollective& call, bool is_root)
{
  if (on_node < 2) return 0;
  const auto p = double(placement.size());
  const auto c = double(on_node);
  const double b = call.bytes;
  // What comes from other nodes arrives at one rank of the node, and is copied by the others.
  const double gathered = (p - 1) - (p - c) / c;
  switch (call.collective)
  {
  case Collective::all_gather:
    return gathered * b;
  case Collective::reduce_scatter:
  case Collective::all_to_all:
    return (c - 1) * b;
  case Collective::all_reduce:
    return 2 * (c - 1) * b / p;
  case Collective::broadcast:
  case Collective::scatter:
    return is_root ? 0 : b;
  case Collective::reduce:
    return b;
  case Collective::gather:
    return is_root ? (c - 1) * b : 0;
  case Collective::receive:
    return b;
  case Collective::send:
  case Collective::barrier:
  case Collective::expose:
    return 0;
  }
  return 0;
}

}  // namespace cubist::CUBIST_ABI::detail
