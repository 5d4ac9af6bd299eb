// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/meshes.hpp"
#include "cubist/plan/muon_cost.hpp"
#include "cubist/scheme/catalogue.hpp"

#include "catch.hpp"
#include "placements.hpp"
#include "sanitized.hpp"

namespace cubist::test::muon_cost_test
{

using detail::best_of_way;
using detail::choose_muon_way;
using detail::MuonGrid;
using detail::MuonMatrix;

static MuonMatrix matrix(const detail::Placement& placement)
{
  MuonMatrix::Part part{0, placement.shape(), {}};
  for (int rank = 0; rank < placement.ranks(); ++rank) part.blocks.push_back(placement[rank]);
  return {placement.shape(), {part}};
}

template <class S>
MuonMatrix weight(const typename S::Axes::Array& extents, Shape shape)
{
  return matrix(detail::placement<typename S::Weight, typename S::Axes>(
      extents, S::quantum(extents), shape, Op::none));
}

constexpr int steps = 5;

TEST_CASE("a home receives what it lacks and sends what others hold")
{
  // 4 x 8 on 2 x 2 ranks: 24 elements there, and 24 back.
  const auto w = matrix(blocks({4, 8}, 2, 2));
  CHECK(best_of_way(w, MuonWay::home, steps, 1, {}, 4)->cost.elements() == 48);
  // Every rank receives what it lacks.
  CHECK(best_of_way(w, MuonWay::replicated, steps, 1, {}, 4)->cost.elements() == 4 * 24);
  // With replicas, two ranks hold each block, and get it back.
  const auto replicated = matrix(blocks({4, 8}, 2, 2, 2));
  CHECK(best_of_way(replicated, MuonWay::home, steps, 1, {}, 4)->cost.elements() == 24 + 56);
}

TEST_CASE("a matrix that lies like the grid is not sent")
{
  const auto w = matrix(blocks({4, 8}, 2, 2));
  const auto cost = detail::muon_cost(w, {MuonWay::distributed, {0, 1, 2, 3}, 2, 2}, 1, 1, {}, 4);
  CHECK(cost.moved == 0);
  // One iteration, and the norm.
  CHECK(cost.products == GramGrid::elements_of_iteration({2, 2}, 4, 8) + 6);
}

TEST_CASE("homes are dealt out by work, not by count")
{
  const std::vector<int> two{0, 1};
  CHECK(detail::deal_homes({1, 1, 3, 1}, {two, two, two, two}) == std::vector<int>{1, 1, 0, 1});
}

TEST_CASE("the chosen way sends no more than a home, or than a copy of the matrix to every rank")
{
  std::map<std::string, int> wins;
  std::size_t meshes = 0;
  for_each_scheme([&]<class S>() {
    for_each_mesh<S>(64, [&](const typename S::Axes::Array& extents) {
      const int ranks = S::Axes::ranks(extents);
      if (ranks < 2 || (quick && ranks % 16 != 0)) return;
      ++meshes;
      for (const Shape shape :
           {Shape{1024, 1024}, Shape{4096, 1024}, Shape{64, 8192}, Shape{1, 512}})
        for (const std::size_t count : {std::size_t{1}, std::size_t{48}})
        {
          const auto w = weight<S>(extents, shape);
          const auto chosen = choose_muon_way(w, MuonWay::automatic, steps, count, {}, 4);
          const auto all = best_of_way(w, MuonWay::replicated, steps, count, {}, 4)->cost;
          const auto home = best_of_way(w, MuonWay::home, steps, count, {}, 4)->cost;
          if (chosen.cost.elements() > std::max(all.elements(), home.elements()) ||
              0.9 * chosen.cost.seconds > all.seconds)
            FAIL_CHECK(S::name << " on " << S::Axes::to_string(extents) << ", " << shape << ": "
                               << name_of(chosen.grid.way) << " sends " << chosen.cost.elements());
          ++wins[name_of(chosen.grid.way)];
        }
    });
  });
  CHECK(meshes > 20);
  CHECK(wins["home"] > 0);
  CHECK(wins["distributed"] > 0);
}

}  // namespace cubist::test::muon_cost_test
