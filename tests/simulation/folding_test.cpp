// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/scheme/data_parallel.hpp"
#include "cubist/scheme/pipeline.hpp"
#include "cubist/scheme/summa2d.hpp"
#include "cubist/simulation/folding.hpp"

#include "ranks.hpp"

namespace cubist::test::simulation_folding_test
{

using cubist::detail::Folding;

/// Nodes with this many ranks, and a core for each rank.
static Machine nodes_of(int ranks)
{
  Machine machine;
  machine.cores = ranks;
  machine.links.front().ranks = ranks;
  return machine;
}

TEST_CASE("The first replica stands for the others, in each stage")
{
  // 2 stages of 3 replicas of 4 ranks, and an idle rank.
  const Folding folding{{2, 3, 4}, 25, nodes_of(4)};
  CHECK(folding.simulated() == 1);
  CHECK(folding.running(25) == 9);
  std::vector<int> representatives;
  for (const int rank : {0, 3, 4, 11, 12, 17, 23, 24})
    representatives.push_back(folding.representative(rank));
  CHECK(representatives == std::vector{0, 3, 0, 3, 12, 13, 15, 24});
  CHECK((folding.runs(24) && folding.runs(15) && !folding.runs(16)));
  // A message from the last replica to the first stands for one from the first to the second.
  CHECK(folding.move_with(8, 1) == 5);
  CHECK(folding.move_with(0, 5) == 5);
  CHECK(folding.text() == "1 of 3 equal replicas is simulated");
}

TEST_CASE("Replicas along an axis are found by the axes of a scheme")
{
  const auto numbers = [](const Replicas& r) { return std::vector{r.outer, r.count, r.inner}; };
  CHECK(numbers(replicas_of<Pipeline<DataParallel<Summa2D>>>({2, 3, 4, 5})) ==
        std::vector{2, 3, 20});
  CHECK(numbers(replicas_of<DataParallel<Summa2D>>({3, 4, 5})) == std::vector{1, 3, 20});
  CHECK(replicas_of<Summa2D>({4, 5}).count == 1);
}

TEST_CASE("Replicas that share what they send through are simulated, and the text says so")
{
  SECTION("stages of several replicas send through the link of their node")
  {
    const Folding folding{{2, 8, 2}, 32, nodes_of(8)};
    CHECK(folding.simulated() == 4);
    CHECK(folding.text() ==
          "4 of 8 replicas are simulated, because that many share the links of 8 ranks");
  }
  SECTION("replicas without stages do if they send messages to each other")
  {
    CHECK(Folding{{1, 8, 2}, 16, nodes_of(8)}.simulated() == 4);
    CHECK(Folding{{.count = 8, .inner = 2, .messages = false}, 16, nodes_of(8)}.simulated() == 1);
  }
  SECTION("replicas on parts of nodes are all simulated")
  {
    const Folding folding{{1, 4, 6}, 24, nodes_of(8)};
    CHECK_FALSE(folding.is_folded());
    CHECK(folding.text() ==
          "4 of 4 replicas are simulated, because parts of them share the links of 8 ranks");
    CHECK_FALSE(Folding{{1, 3, 2}, 6, nodes_of(4)}.is_folded());
  }
  SECTION("ranks that share cores slow each other down")
  {
    auto machine = nodes_of(8);
    machine.cores = 2;
    CHECK(Folding{{1, 8, 2}, 16, machine}.simulated() == 4);
  }
  SECTION("in one node, each rank has its links")
  {
    CHECK(Folding{{2, 2, 2}, 8, nodes_of(8)}.simulated() == 1);
  }
}

TEST_CASE("Replicas that a launch cannot have are refused")
{
  for (const Replicas& wrong : {Replicas{1, 3, 3}, Replicas{0, 2, 2}, Replicas{1, -1, 1},
                                Replicas{1 << 20, 1 << 20, 1 << 20}})
    CHECK_THROWS_WITH(
        (Folding{wrong, 8, nodes_of(8)}),
        Catch::Matchers::ContainsSubstring("so it is unclear which ranks do the same"));
}

}  // namespace cubist::test::simulation_folding_test
