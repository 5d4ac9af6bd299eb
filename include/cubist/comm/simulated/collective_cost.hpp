// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The cost of a collective on simulated links, by the algorithm that the backend would run.
//
// P ranks are on N units of some level, and a unit holds c of them; pieces have b bytes. These are
// the bytes into and out of a unit:
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
// Short blocks, which MPI sends in one round (small_call.hpp), count as long ones. In MPI's
// all_gather, a block enters a node once, and is forwarded there (mpi/collectives/all_gather.hpp).
// Transfers between units of a level pass the links of that level and of those below it, but not
// the first ones, which are inside nodes.
//
// A collective takes
//
//   latency    one message in a direct exchange, two in an all_reduce, and one for each edge of a
//              chain or a ring, with the time of a segment
//   then       the largest bytes / bandwidth of all links, if it is alone
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

/// Inputs of the cost model for one collective.
struct SimulatedCollective
{
  CallKind kind;
  double bytes;  // the size of a piece
  int root = 0;  // position in the communicator: root, or sender of a message
  int peer = 0;  // position of the rank that receives a message
};

struct CollectiveCost
{
  double latency = 0;  // seconds before it uses a link
  double seconds = 0;  // seconds after that, if it is alone
  std::vector<ResourceUse> uses = {};
};

/// Bytes into and out of a unit.
struct UnitBytes
{
  double in = 0;
  double out = 0;
};

/// One unit of a level, and everything that its part in a collective depends on.
struct CollectiveUnit
{
  const SimulatedLinks& links;
  const SimulatedPlacement& placement;
  std::size_t level;
  std::size_t index;  // among the units of the level
  const SimulatedCollective& call;
  const UnitMembers& here;

  /// Returns the bytes by MPI's direct exchange and chains of ranks (comm/mpi/collectives), or by
  /// NCCL's rings and chains from unit to unit.
  [[nodiscard]] UnitBytes bytes(bool by_nccl) const
  {
    const double b = call.bytes;
    const auto p = double(placement.size());
    const auto members = double(here.members);
    const double others = p - members;
    const bool has_root = has(call.root);
    switch (call.kind)
    {
    case CallKind::all_gather:
      if (!by_nccl) return {others * b, members * (double(units().size()) - 1) * b};
      return both((p - 1) * b);
    case CallKind::reduce_scatter:
      return both((by_nccl ? p - 1 : members * others) * b);
    case CallKind::all_reduce:
      return both(2 * b / p * (by_nccl ? p - 1 : members * others));
    case CallKind::all_to_all:
      return both(members * others * b);
    case CallKind::broadcast:
      return {has_root ? 0 : b, next(1) == unit_of(call.root) ? 0 : b};
    case CallKind::reduce:
      if (!by_nccl) return along_ranks();
      return {next(units().size() - 1) == unit_of(call.root) ? 0 : b, has_root ? 0 : b};
    case CallKind::gather:
      return has_root ? UnitBytes{others * b, 0} : UnitBytes{0, members * b};
    case CallKind::scatter:
      return has_root ? UnitBytes{0, others * b} : UnitBytes{members * b, 0};
    case CallKind::send:
    case CallKind::receive:
      if (has_root == has(call.peer)) return {};
      return has_root ? UnitBytes{0, b} : UnitBytes{b, 0};
    default:  // barriers and windows send no data
      return {};
    }
  }

  [[nodiscard]] static UnitBytes both(double x) { return {x, x}; }

  [[nodiscard]] const std::vector<UnitMembers>& units() const { return placement.units(level); }
  [[nodiscard]] bool has(int position) const { return unit_of(position) == here.unit; }
  /// The unit this many places after this one in the chain from unit to unit, cyclically.
  [[nodiscard]] int next(std::size_t places) const
  {
    return units()[(index + places) % units().size()].unit;
  }
  [[nodiscard]] int unit_of(int position) const
  {
    return links.unit(level, placement.rank(position));
  }

  /// Returns the bytes of a chain through all ranks, which is the ring of ranks without the edge
  /// from the root to its successor.
  [[nodiscard]] UnitBytes along_ranks() const
  {
    const int first = unit_of(call.root + 1);
    const bool leaves = first != unit_of(call.root);
    const auto exits = double(here.exits);
    return {(leaves && first == here.unit ? exits - 1 : exits) * call.bytes,
            (leaves && has(call.root) ? exits - 1 : exits) * call.bytes};
  }
};

[[nodiscard]] inline UnitBytes unit_bytes(const Machine& machine, const SimulatedLinks& links,
                                          const SimulatedPlacement& placement, std::size_t level,
                                          std::size_t index, const SimulatedCollective& call)
{
  const CollectiveUnit unit{links, placement, level, index, call, placement.units(level)[index]};
  return unit.bytes(machine.algorithms == CollectiveAlgorithms::nccl);
}

/// The time, in seconds, that a message takes to pass all ranks one after the other, including the
/// time of a segment on each edge. Edges between the largest units come first; the rest are inside
/// them.
[[nodiscard]] inline double chain_latency(const Machine& machine,
                                          const SimulatedPlacement& placement, double segment)
{
  double sum = 0;
  std::size_t edges = placement.size() - 1;
  for (std::size_t level = placement.top() + 1; level-- > 0;)
  {
    const Link& link = machine.links[level];
    const std::size_t here =
        level == 0 ? edges : std::min(edges, placement.units(level).size() - 1);
    sum += double(here) * (link.latency + segment / link.bandwidth);
    edges -= here;
  }
  return sum;
}

/// How long messages wait for others before a collective's bytes flow, in seconds.
[[nodiscard]] inline double latency_of(const Machine& machine, const SimulatedPlacement& placement,
                                       const SimulatedCollective& call)
{
  const double one = machine.links[placement.top()].latency;
  const double tree = double(std::bit_width(placement.size() - 1)) * one;
  const bool rings = machine.algorithms == CollectiveAlgorithms::nccl;
  const auto along = [&](double segment) { return chain_latency(machine, placement, segment); };
  switch (call.kind)
  {
  case CallKind::barrier:
  case CallKind::expose:
    return tree;
  case CallKind::broadcast:
  case CallKind::reduce:
    return along(call.bytes > machine.segment_bytes ? machine.segment_bytes : 0);
  case CallKind::all_gather:
  case CallKind::reduce_scatter:
    return rings ? along(0) : one;
  case CallKind::all_reduce:
    return 2 * (rings ? std::min(along(0), tree) : one);
  default:
    return one;
  }
}

/// How many ranks of a unit send, and receive, its bytes.
[[nodiscard]] inline double ranks_that_transfer(const Machine& machine, const UnitMembers& unit,
                                                const SimulatedCollective& call)
{
  switch (call.kind)
  {
  case CallKind::broadcast:
  case CallKind::reduce:
  case CallKind::send:
  case CallKind::receive:
    // NCCL cuts a chain into channels, which use the network cards of all members.
    return machine.algorithms == CollectiveAlgorithms::nccl ? double(unit.members) : 1;
  case CallKind::gather:
  case CallKind::scatter:
    return 1;
  default:
    return double(unit.members);
  }
}

/// How long a collective would occupy each link and core if it were alone, in seconds.
struct CollectiveLoads
{
  struct Load
  {
    int resource;
    double seconds;
  };

  std::vector<Load> all;
  double rank_seconds = 0;  // how long the slowest rank sends or receives its bytes
  double core_seconds = 0;

  /// Adds the bytes of a unit.
  /// @param ranks how many of the unit's ranks send its bytes, and how many receive them
  void add(const Machine& machine, const SimulatedLinks& links, std::size_t level, int unit,
           UnitBytes bytes, double ranks)
  {
    const Link& link = machine.links[level];
    const double most = std::max(bytes.in, bytes.out);
    if (most == 0) return;
    if (link.rank_bandwidth > 0)
      rank_seconds = std::max(rank_seconds, most / (ranks * link.rank_bandwidth));
    all.push_back({links.into(level, unit), bytes.in / link.bandwidth});
    all.push_back({links.out_of(level, unit), bytes.out / link.bandwidth});
    const double messages = std::max(1.0, most / machine.segment_bytes);
    core_seconds += (bytes.in + bytes.out) * link.core_seconds_per_byte +
                    2 * messages * link.core_seconds_per_message;
  }
  /// Divides `core_seconds` among the cores. Cores that several nodes share are one resource;
  /// otherwise each node's cores do their part.
  void add_cores(const SimulatedLinks& links, const SimulatedPlacement& placement)
  {
    if (core_seconds == 0) return;
    std::vector<int> cores;
    for (const auto& unit : placement.units(0)) cores.push_back(links.cores_of(unit.unit));
    std::sort(cores.begin(), cores.end());
    cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
    const double each = core_seconds / (double(cores.size()) * links.cores_together());
    for (const int c : cores) all.push_back({c, each});
  }
};

[[nodiscard]] inline CollectiveCost collective_cost(const Machine& machine,
                                                    const SimulatedLinks& links,
                                                    const SimulatedPlacement& placement,
                                                    const SimulatedCollective& call)
{
  CollectiveCost cost;
  if (placement.size() == 1) return cost;
  cost.latency = latency_of(machine, placement, call);
  CollectiveLoads loads;
  const std::size_t top = placement.top();
  for (std::size_t level = top == 0 ? 0 : 1; level <= top; ++level)
  {
    if (!machine.links[level].overlaps) continue;  // copied by the ranks when they wait
    const auto& units = placement.units(level);
    for (std::size_t i = 0; i < units.size(); ++i)
      loads.add(machine, links, level, units[i].unit,
                unit_bytes(machine, links, placement, level, i, call),
                ranks_that_transfer(machine, units[i], call));
  }
  loads.add_cores(links, placement);
  cost.seconds = loads.rank_seconds;
  for (const auto& load : loads.all) cost.seconds = std::max(cost.seconds, load.seconds);
  for (const auto& load : loads.all)
  {
    // A message between replicas stands for those into the links that are simulated.
    const int used = links.representative(load.resource);
    if (load.seconds > 0 && (used == load.resource || call.kind == CallKind::send))
      cost.uses.push_back({used, load.seconds / cost.seconds});
  }
  return cost;
}

/// Returns the cost of a message between two ranks of the launch.
[[nodiscard]] inline CollectiveCost
message_cost(const Machine& machine, const SimulatedLinks& links, int from, int to, double bytes)
{
  return collective_cost(machine, links, {machine, links, {from, to}},
                         {CallKind::send, bytes, 0, 1});
}

/// The bytes that a rank copies from others on its node when it waits for a collective, in which
/// `on_node` of the node's ranks take part.
[[nodiscard]] inline double copied_bytes(const SimulatedPlacement& placement, std::size_t on_node,
                                         const SimulatedCollective& call, bool is_root)
{
  if (on_node < 2) return 0;
  const auto p = double(placement.size());
  const auto c = double(on_node);
  const double b = call.bytes;
  // Data from other nodes arrives at one rank of the node, and the others copy it.
  const double gathered = (p - 1) - (p - c) / c;
  switch (call.kind)
  {
  case CallKind::all_gather:
    return gathered * b;
  case CallKind::reduce_scatter:
  case CallKind::all_to_all:
    return (c - 1) * b;
  case CallKind::all_reduce:
    return 2 * (c - 1) * b / p;
  case CallKind::broadcast:
  case CallKind::scatter:
    return is_root ? 0 : b;
  case CallKind::reduce:
  case CallKind::receive:
    return b;
  case CallKind::gather:
    return is_root ? (c - 1) * b : 0;
  default:
    return 0;
  }
}

}  // namespace cubist::CUBIST_ABI::detail
