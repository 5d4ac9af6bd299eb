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
#include <utility>
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

/// A collective on the ranks of a communicator, and what its cost depends on.
struct CollectiveModel
{
  const Machine& machine;
  const SimulatedLinks& links;
  const SimulatedPlacement& placement;
  const SimulatedCollective& call;
  /// Whether it runs by NCCL's rings and chains from unit to unit, or by MPI's direct exchange and
  /// chains of ranks (comm/mpi/collectives).
  bool by_nccl = machine.algorithms == CollectiveAlgorithms::nccl;

  /// Returns the bytes of a unit of a level.
  [[nodiscard]] UnitBytes unit_bytes(std::size_t level, std::size_t index) const
  {
    const auto& units = placement.units(level);
    const UnitMembers& here = units[index];
    const auto unit_of = [&](int position) { return links.unit(level, placement.rank(position)); };
    // The unit that many places after this one in the chain from unit to unit, cyclically.
    const auto next = [&](std::size_t places) {
      return units[(index + places) % units.size()].unit;
    };
    const auto both = [](double x) { return UnitBytes{x, x}; };
    const double b = call.bytes;
    const auto p = double(placement.size());
    const auto members = double(here.members);
    const double others = p - members;
    const int root = unit_of(call.root);
    const bool has_root = root == here.unit;
    switch (call.kind)
    {
    case CallKind::all_gather:
      if (by_nccl) return both((p - 1) * b);
      return {others * b, members * (double(units.size()) - 1) * b};
    case CallKind::reduce_scatter:
      return both((by_nccl ? p - 1 : members * others) * b);
    case CallKind::all_reduce:
      return both(2 * b / p * (by_nccl ? p - 1 : members * others));
    case CallKind::all_to_all:
      return both(members * others * b);
    case CallKind::broadcast:
      return {has_root ? 0 : b, next(1) == root ? 0 : b};
    case CallKind::reduce:
    {
      if (by_nccl) return {next(units.size() - 1) == root ? 0 : b, has_root ? 0 : b};
      // A chain through all ranks is their ring without the edge from the root to its successor.
      const int first = unit_of(call.root + 1);
      const auto exits = double(here.exits);
      return {(first != root && first == here.unit ? exits - 1 : exits) * b,
              (first != root && has_root ? exits - 1 : exits) * b};
    }
    case CallKind::gather:
      return has_root ? UnitBytes{others * b, 0} : UnitBytes{0, members * b};
    case CallKind::scatter:
      return has_root ? UnitBytes{0, others * b} : UnitBytes{members * b, 0};
    case CallKind::send:
    case CallKind::receive:
      if (has_root == (unit_of(call.peer) == here.unit)) return {};
      return has_root ? UnitBytes{0, b} : UnitBytes{b, 0};
    default:  // barriers and windows send no data
      return {};
    }
  }

  /// The time, in seconds, that a message takes to pass all ranks one after the other, including
  /// the time of a segment on each edge. Edges between the largest units come first; the rest are
  /// inside them.
  [[nodiscard]] double chain_latency(double segment) const
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
  [[nodiscard]] double latency() const
  {
    const double one = machine.links[placement.top()].latency;
    const double tree = double(std::bit_width(placement.size() - 1)) * one;
    switch (call.kind)
    {
    case CallKind::barrier:
    case CallKind::expose:
      return tree;
    case CallKind::broadcast:
    case CallKind::reduce:
      return chain_latency(call.bytes > machine.segment_bytes ? machine.segment_bytes : 0);
    case CallKind::all_gather:
    case CallKind::reduce_scatter:
      return by_nccl ? chain_latency(0) : one;
    case CallKind::all_reduce:
      return 2 * (by_nccl ? std::min(chain_latency(0), tree) : one);
    default:
      return one;
    }
  }

  /// How many ranks of a unit send its bytes, and how many receive them.
  [[nodiscard]] double ranks_that_transfer(const UnitMembers& unit) const
  {
    switch (call.kind)
    {
    case CallKind::broadcast:
    case CallKind::reduce:
    case CallKind::send:
    case CallKind::receive:
      // NCCL cuts a chain into channels, which use the network cards of all members.
      return by_nccl ? double(unit.members) : 1;
    case CallKind::gather:
    case CallKind::scatter:
      return 1;
    default:
      return double(unit.members);
    }
  }

  [[nodiscard]] CollectiveCost cost() const
  {
    CollectiveCost cost;
    if (placement.size() == 1) return cost;
    cost.latency = latency();
    // How long it would occupy each link and core if it were alone, in seconds.
    std::vector<std::pair<int, double>> loads;
    double core_seconds = 0;
    const std::size_t top = placement.top();
    for (std::size_t level = top == 0 ? 0 : 1; level <= top; ++level)
    {
      const Link& link = machine.links[level];
      if (!link.overlaps) continue;  // copied by the ranks when they wait
      const auto& units = placement.units(level);
      for (std::size_t i = 0; i < units.size(); ++i)
      {
        const auto [in, out] = unit_bytes(level, i);
        const double most = std::max(in, out);
        if (most == 0) continue;
        if (link.rank_bandwidth > 0)
          cost.seconds =
              std::max(cost.seconds, most / (ranks_that_transfer(units[i]) * link.rank_bandwidth));
        loads.emplace_back(links.into(level, units[i].unit), in / link.bandwidth);
        loads.emplace_back(links.out_of(level, units[i].unit), out / link.bandwidth);
        const double messages = std::max(1.0, most / machine.segment_bytes);
        core_seconds +=
            (in + out) * link.core_seconds_per_byte + 2 * messages * link.core_seconds_per_message;
      }
    }
    if (core_seconds > 0)
    {
      // Cores that several nodes share are one resource; otherwise each node's cores do their part.
      std::vector<int> cores;
      for (const auto& unit : placement.units(0)) cores.push_back(links.cores_of(unit.unit));
      std::sort(cores.begin(), cores.end());
      cores.erase(std::unique(cores.begin(), cores.end()), cores.end());
      const double each = core_seconds / (double(cores.size()) * links.cores_together());
      for (const int c : cores) loads.emplace_back(c, each);
    }
    for (const auto& [_, seconds] : loads) cost.seconds = std::max(cost.seconds, seconds);
    for (const auto& [resource, seconds] : loads)
    {
      // A message between replicas stands for those into the links that are simulated.
      const int used = links.representative(resource);
      if (seconds > 0 && (used == resource || call.kind == CallKind::send))
        cost.uses.push_back({used, seconds / cost.seconds});
    }
    return cost;
  }
};

[[nodiscard]] inline CollectiveCost collective_cost(const Machine& machine,
                                                    const SimulatedLinks& links,
                                                    const SimulatedPlacement& placement,
                                                    const SimulatedCollective& call)
{
  return CollectiveModel{machine, links, placement, call}.cost();
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
