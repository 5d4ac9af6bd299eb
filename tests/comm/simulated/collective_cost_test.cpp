// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/simulated/collective_cost.hpp"
#include "cubist/comm/traffic.hpp"

#include "catch.hpp"

namespace cubist::test::comm_simulated_collective_cost_test
{

using namespace cubist::detail;

constexpr double latency = 1e-6;
constexpr double bandwidth = 1e9;

/// Nodes with this many ranks, and links of 1 GB/s inside a node and between nodes.
static Machine machine(int ranks_per_node, CollectiveAlgorithms algorithms)
{
  Machine m;
  m.algorithms = algorithms;
  m.segment_bytes = 1000;
  m.links = {{"inside", ranks_per_node, latency, bandwidth}, {"network", 0, latency, bandwidth}};
  return m;
}

static std::vector<int> first_ranks(int n)
{
  std::vector<int> ranks(static_cast<std::size_t>(n));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

/// The bytes into and out of all units of a level.
static UnitBytes bytes(const Machine& m, const std::vector<int>& ranks, std::size_t level,
                       const SimulatedCollective& call)
{
  const SimulatedLinks links{m, 64};
  const SimulatedPlacement placement{m, links, ranks};
  UnitBytes sum;
  for (std::size_t i = 0; i < placement.units(level).size(); ++i)
  {
    const auto [in, out] = CollectiveModel{m, links, placement, call}.unit_bytes(level, i);
    sum = {sum.in + in, sum.out + out};
  }
  return sum;
}

static CollectiveCost cost(const Machine& m, const std::vector<int>& ranks,
                           const SimulatedCollective& call)
{
  const SimulatedLinks links{m, 64};
  return collective_cost(m, links, {m, links, ranks}, call);
}

constexpr CallKind with_data[] = {
    CallKind::broadcast,      CallKind::reduce,     CallKind::all_reduce, CallKind::all_gather,
    CallKind::reduce_scatter, CallKind::all_to_all, CallKind::gather,     CallKind::scatter};

TEST_CASE("where each node has one rank, the bytes between nodes are those that are counted")
{
  for (const auto algorithms : {CollectiveAlgorithms::mpi, CollectiveAlgorithms::nccl})
    for (const int p : {2, 3, 4, 7, 16})
      for (const auto collective : with_data)
        for (const int root : {0, p - 1})
        {
          CAPTURE(to_string(collective), p, root, algorithms == CollectiveAlgorithms::nccl);
          constexpr std::size_t count = 840;  // a multiple of every p
          std::uint64_t counted = 0;
          for (int r = 0; r < p; ++r)
            counted += sent_by(Call<float>{.kind = collective,
                                           .count = count,
                                           .peer = has_root(collective) ? root : 0},
                               r, p)
                           .elements;
          const SimulatedCollective call{collective, double(count), root, 0};
          const auto m = machine(1, algorithms);
          const auto [in, out] = bytes(m, first_ranks(p), 1, call);
          CHECK(out == Approx(double(counted)));
          CHECK(in == Approx(double(counted)));
        }
}

TEST_CASE("what leaves the nodes enters other nodes")
{
  for (const auto algorithms : {CollectiveAlgorithms::mpi, CollectiveAlgorithms::nccl})
    for (const auto& ranks :
         {first_ranks(16), std::vector{0, 1, 4, 5, 8, 9}, std::vector{0, 1, 2, 4, 9}})
      for (const auto collective : with_data)
      {
        CAPTURE(to_string(collective), ranks.size());
        const auto m = machine(4, algorithms);
        const SimulatedCollective call{collective, 100.0, 1, 0};
        const auto [in, out] = bytes(m, ranks, 1, call);
        CHECK(out == Approx(in));
        CHECK(out > 0);
      }
}

TEST_CASE("an all_gather of MPI enters each node once")
{
  const SimulatedCollective call{CallKind::all_gather, 10.0};
  // Each of 16 blocks enters 3 other nodes.
  CHECK(bytes(machine(4, CollectiveAlgorithms::mpi), first_ranks(16), 1, call).in ==
        Approx(16 * 3 * 10));
}

TEST_CASE("a collective takes its messages' latency, and the longest transfer")
{
  const double b = 1e6;
  for (const auto algorithms : {CollectiveAlgorithms::mpi, CollectiveAlgorithms::nccl})
  {
    const auto m = machine(1, algorithms);
    const auto all_gather = cost(m, first_ranks(8), {CallKind::all_gather, b});
    CHECK(all_gather.seconds == Approx(7 * b / bandwidth));
    CHECK(all_gather.latency ==
          Approx(algorithms == CollectiveAlgorithms::nccl ? 7 * latency : latency));
    const auto broadcast = cost(m, first_ranks(8), {CallKind::broadcast, b});
    CHECK(broadcast.seconds == Approx(b / bandwidth));
    CHECK(broadcast.latency == Approx(7 * (latency + m.segment_bytes / bandwidth)));
    const auto all_reduce = cost(m, first_ranks(8), {CallKind::all_reduce, b});
    CHECK(all_reduce.seconds == Approx(2 * 7.0 / 8 * b / bandwidth));
    const auto barrier = cost(m, first_ranks(8), {CallKind::barrier, 0});
    CHECK(barrier.seconds == 0);
    CHECK(barrier.latency == Approx(3 * latency));
  }
}

TEST_CASE("one rank has nothing to send")
{
  const auto c = cost(machine(4, CollectiveAlgorithms::mpi), {3}, {CallKind::all_reduce, 1e6});
  CHECK(c.latency == 0);
  CHECK(c.seconds == 0);
  CHECK(c.uses.empty());
}

TEST_CASE("one rank of a node sends no faster than its own card")
{
  auto m = machine(4, CollectiveAlgorithms::nccl);
  m.links[1].rank_bandwidth = bandwidth / 4;
  const SimulatedCollective call{CallKind::all_reduce, 8e6};
  // All four ranks of two nodes use the whole link; one rank of each has a quarter of it.
  CHECK(cost(m, first_ranks(8), call).seconds == Approx(2 * 7.0 / 8 * 8e6 / bandwidth));
  CHECK(cost(m, {0, 4}, call).seconds == Approx(2 * 1.0 / 2 * 8e6 / (bandwidth / 4)));
}

TEST_CASE("messages occupy the cores that they are sent and received by")
{
  auto m = machine(1, CollectiveAlgorithms::mpi);
  m.cores = 2;
  m.nodes_sharing = 64;
  m.links[1].core_seconds_per_byte = 0.5 / bandwidth;
  const SimulatedLinks links{m, 64};
  const auto c = cost(m, {0, 1}, {CallKind::send, 1e6, 0, 1});
  // Sending and receiving each take half of a core's time, so together one of two cores.
  double part = 0;
  for (const auto& use : c.uses)
    if (use.resource == links.cores_of(0)) part = use.part;
  CHECK(part == Approx(0.5));
}

TEST_CASE("ranks copy what others of their node send")
{
  const auto m = machine(4, CollectiveAlgorithms::mpi);
  const SimulatedLinks links{m, 64};
  const SimulatedPlacement node{m, links, first_ranks(4)};
  CHECK(copied_bytes(node, 4, {CallKind::all_gather, 10}, false) == 30);
  CHECK(copied_bytes(node, 4, {CallKind::reduce_scatter, 10}, false) == 30);
  CHECK(copied_bytes(node, 4, {CallKind::broadcast, 10}, false) == 10);
  CHECK(copied_bytes(node, 4, {CallKind::broadcast, 10}, true) == 0);
  CHECK(copied_bytes(node, 4, {CallKind::gather, 10}, true) == 30);
  const SimulatedPlacement apart{m, links, {0, 4, 8}};
  CHECK(copied_bytes(apart, 1, {CallKind::all_gather, 10}, false) == 0);
}

}  // namespace cubist::test::comm_simulated_collective_cost_test
