// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>

#include "cubist/comm/mpi/transport/topology.hpp"

#include "catch.hpp"

namespace cubist::test::comm_mpi_transport_topology_test
{

// Tests properties of the routes for any placement of ranks on nodes. collectives/*_test.cpp test
// that data takes these routes, and tests/multihost tests what crosses a network.

using cubist::detail::MpiTopology;

using NodeIds = std::vector<int>;

const std::vector<NodeIds> placements{{0},
                                      {7, 7},
                                      {0, 1},
                                      {0, 1, 2, 3},
                                      {0, 0, 1, 1},
                                      {0, 1, 0, 1},
                                      {2, 2, 1, 1, 0, 0},
                                      {0, 0, 0, 1},
                                      {0, 1, 1, 1, 1},
                                      {0, 0, 1, 2, 2, 2, 1},
                                      {3, 3, 3, 5, 5, 5, 9, 9, 9}};

static int count_nodes(const NodeIds& ids)
{
  return static_cast<int>(std::set<int>(ids.begin(), ids.end()).size());
}

TEST_CASE("the chain of a broadcast visits every rank once, and enters every node once")
{
  for (const auto& ids : placements)
    for (int root = 0; root < static_cast<int>(ids.size()); ++root)
    {
      CAPTURE(ids, root);
      const MpiTopology nodes{ids, 0};
      CHECK(nodes.predecessor(root, root) == -1);
      std::set<int> reached{root};
      int crossings = 0;
      int rank = root;
      for (int next = 0; (next = nodes.successor(rank, root)) >= 0; rank = next)
      {
        CHECK(nodes.predecessor(next, root) == rank);
        crossings += ids[static_cast<std::size_t>(next)] != ids[static_cast<std::size_t>(rank)];
        REQUIRE(reached.insert(next).second);
      }
      CHECK(reached.size() == ids.size());
      CHECK(crossings == count_nodes(ids) - 1);
    }
}

TEST_CASE("the blocks of an all_gather reach every rank once, and enter every node once")
{
  for (const auto& ids : placements)
  {
    CAPTURE(ids);
    const int ranks = static_cast<int>(ids.size());
    std::vector<MpiTopology> nodes;
    for (int rank = 0; rank < ranks; ++rank) nodes.emplace_back(ids, rank);
    for (int to = 0; to < ranks; ++to)
    {
      const auto& here = nodes[static_cast<std::size_t>(to)];
      for (int source = 0; source < ranks; ++source)
      {
        if (source == to) continue;
        int times = here.sends_directly(source, to) ? 1 : 0;
        for (const auto& mine : here.forwarded_by_peers())
        {
          if (mine.source != source) continue;
          ++times;
          const auto& there = nodes[static_cast<std::size_t>(mine.leader)];
          CHECK(there.sends_directly(source, mine.leader));
          CHECK(std::count(there.node_peers().begin(), there.node_peers().end(), to) == 1);
          CHECK(
              std::count_if(there.forwarded().begin(), there.forwarded().end(), [&](const auto& p) {
                return p.leader == mine.leader && p.source == source;
              }) == 1);
        }
        CHECK(times == 1);
      }
    }
    for (int source = 0; source < ranks; ++source)
    {
      int crossings = 0;
      for (int to = 0; to < ranks; ++to)
        if (ids[static_cast<std::size_t>(to)] != ids[static_cast<std::size_t>(source)])
          crossings += nodes[0].sends_directly(source, to) ? 1 : 0;
      CHECK(crossings == count_nodes(ids) - 1);
    }
  }
}

TEST_CASE("peers receive forwarded blocks in the order in which their leader forwards them")
{
  const std::vector<int> ids{0, 1, 2, 0, 1, 2, 0, 1};
  for (int rank = 0; rank < 8; ++rank)
  {
    const MpiTopology here{ids, rank};
    for (const int peer : here.node_peers())
    {
      const MpiTopology there{ids, peer};
      std::vector<int> sent, expected;
      for (const auto& p : there.forwarded()) sent.push_back(p.source);
      for (const auto& p : here.forwarded_by_peers())
        if (p.leader == peer) expected.push_back(p.source);
      CHECK(sent == expected);
    }
  }
}

TEST_CASE("with as many ranks on each node, every rank sends P-1 blocks")
{
  for (const NodeIds& ids :
       {NodeIds{0, 0, 1, 1}, NodeIds{0, 1, 2, 0, 1, 2}, NodeIds{0, 0, 0, 0}, NodeIds{4, 3, 2, 1}})
    for (int rank = 0; rank < static_cast<int>(ids.size()); ++rank)
    {
      CAPTURE(ids, rank);
      const MpiTopology nodes{ids, rank};
      std::size_t sent = nodes.forwarded().size() * nodes.node_peers().size();
      for (int to = 0; to < static_cast<int>(ids.size()); ++to)
        sent += to != rank && nodes.sends_directly(rank, to) ? 1 : 0;
      CHECK(sent == ids.size() - 1);
    }
}

}  // namespace cubist::test::comm_mpi_transport_topology_test
