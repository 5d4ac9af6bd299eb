// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <set>
#include <vector>

#include "cubist/comm/mpi/topology.hpp"

#include "catch.hpp"

// Laws of the ways of data, whatever ranks are together on a node. That data goes them is tested by
// mpi_call_test.cpp, and what crosses a network by tests/multihost.

using cubist::detail::MpiTopology;

namespace
{

using OfRanks = std::vector<int>;

const std::vector<OfRanks> all_nodes{{0},
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

int count_nodes(const OfRanks& of)
{
  return static_cast<int>(std::set<int>(of.begin(), of.end()).size());
}

}  // namespace

TEST_CASE("a broadcast comes to every rank once, and to every node once")
{
  for (const auto& of : all_nodes)
    for (int root = 0; root < static_cast<int>(of.size()); ++root)
    {
      CAPTURE(of, root);
      const MpiTopology nodes{of, 0};
      CHECK(nodes.before(root, root) == -1);
      std::set<int> reached{root};
      int crossings = 0;
      int rank = root;
      for (int next = 0; (next = nodes.after(rank, root)) >= 0; rank = next)
      {
        CHECK(nodes.before(next, root) == rank);
        crossings += of[static_cast<std::size_t>(next)] != of[static_cast<std::size_t>(rank)];
        REQUIRE(reached.insert(next).second);
      }
      CHECK(reached.size() == of.size());
      CHECK(crossings == count_nodes(of) - 1);
    }
}

TEST_CASE("what is gathered comes to every rank once, and to every node once")
{
  for (const auto& of : all_nodes)
  {
    CAPTURE(of);
    const int ranks = static_cast<int>(of.size());
    std::vector<MpiTopology> nodes;
    for (int rank = 0; rank < ranks; ++rank) nodes.emplace_back(of, rank);
    for (int to = 0; to < ranks; ++to)
    {
      const auto& here = nodes[static_cast<std::size_t>(to)];
      for (int source = 0; source < ranks; ++source)
      {
        if (source == to) continue;
        int times = here.directly(source, to) ? 1 : 0;
        for (const auto& mine : here.passed_by_mates())
        {
          if (mine.source != source) continue;
          ++times;
          const auto& there = nodes[static_cast<std::size_t>(mine.by)];
          CHECK(there.directly(source, mine.by));
          CHECK(std::count(there.mates().begin(), there.mates().end(), to) == 1);
          CHECK(
              std::count_if(there.passed_on().begin(), there.passed_on().end(), [&](const auto& p) {
                return p.by == mine.by && p.source == source;
              }) == 1);
        }
        CHECK(times == 1);
      }
    }
    for (int source = 0; source < ranks; ++source)
    {
      int crossings = 0;
      for (int to = 0; to < ranks; ++to)
        if (of[static_cast<std::size_t>(to)] != of[static_cast<std::size_t>(source)])
          crossings += nodes[0].directly(source, to) ? 1 : 0;
      CHECK(crossings == count_nodes(of) - 1);
    }
  }
}

TEST_CASE("what a mate passes on comes in the order in which it does")
{
  const std::vector<int> of{0, 1, 2, 0, 1, 2, 0, 1};
  for (int rank = 0; rank < 8; ++rank)
  {
    const MpiTopology here{of, rank};
    for (const int mate : here.mates())
    {
      const MpiTopology there{of, mate};
      std::vector<int> sent, expected;
      for (const auto& p : there.passed_on()) sent.push_back(p.source);
      for (const auto& p : here.passed_by_mates())
        if (p.by == mate) expected.push_back(p.source);
      CHECK(sent == expected);
    }
  }
}

TEST_CASE("with as many ranks on each node, each sends a piece as often as to all others")
{
  for (const OfRanks& of :
       {OfRanks{0, 0, 1, 1}, OfRanks{0, 1, 2, 0, 1, 2}, OfRanks{0, 0, 0, 0}, OfRanks{4, 3, 2, 1}})
    for (int rank = 0; rank < static_cast<int>(of.size()); ++rank)
    {
      CAPTURE(of, rank);
      const MpiTopology nodes{of, rank};
      std::size_t sent = nodes.passed_on().size() * nodes.mates().size();
      for (int to = 0; to < static_cast<int>(of.size()); ++to)
        sent += to != rank && nodes.directly(rank, to) ? 1 : 0;
      CHECK(sent == of.size() - 1);
    }
}
