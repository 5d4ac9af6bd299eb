// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>

#include "cubist/foreign/conversion_plan.hpp"
#include "cubist/scheme/cube3d.hpp"

#include "catch.hpp"
#include "sanitized.hpp"

namespace cubist::test::foreign_conversion_plan_test
{

TEST_CASE("a conversion plan names what is sent, received and copied")
{
  // Columns 0-1 and 4-5 on rank 0, 2-3 on rank 1; then rows 0-1 on rank 0, row 2 on rank 1.
  const Distribution cols{BlockCyclic{.shape = {3, 6}, .block = {3, 2}, .grid = {1, 2}}};
  const Distribution rows{one_block_a_rank({3, 6}, {2, 1})};
  const detail::ConversionPlan plan{cols, rows, Op::none, MatrixPart::all, 0, 2};
  REQUIRE(plan.sends.size() == 1);
  CHECK(plan.sends[0].peer == 1);
  CHECK(plan.sends[0].elements == 4);
  REQUIRE(plan.receives.size() == 1);
  CHECK(plan.receives[0].elements == 4);
  REQUIRE(plan.local.size() == 1);
  CHECK(plan.local[0].elements == 8);
  CHECK(plan.is_exchange());
  CHECK(conversion_cost(cols, rows) == ConversionCost{8, 4, 4});
  CHECK(conversion_cost(rows, rows) == ConversionCost{});
  CHECK_FALSE(detail::ConversionPlan(rows, rows, Op::none, MatrixPart::all, 0, 2).is_exchange());
  // In the lower triangle rank 1 lacks (2, 0) and (2, 1), and rank 0 lacks nothing.
  CHECK(conversion_cost(cols, rows, Op::none, MatrixPart::lower).total == 2);
}

TEST_CASE("replicas take turns sending, and read their own copies")
{
  // Both process rows hold the whole matrix; after the conversion, rank r holds row r.
  const Distribution replicated{
      BlockCyclic{.shape = {4, 6}, .block = {1, 6}, .grid = {2, 1}, .row_source = -1}};
  const Distribution rows{one_block_a_rank({4, 6}, {4, 1})};
  CHECK(conversion_cost(replicated, rows) == ConversionCost{12, 6, 6});
  // Conversion to replicas: each rank lacks what it does not hold.
  CHECK(conversion_cost(rows, replicated) == ConversionCost{36, 12, 18});
}

TEST_CASE("in a conversion between nodes, only what leaves a node counts")
{
  // Ranks 0 and 1 are one node, 2 and 3 another. Rank r has row r, then column r.
  const Distribution rows{one_block_a_rank({4, 4}, {4, 1})};
  const Distribution cols{one_block_a_rank({4, 4}, {1, 4})};
  CHECK(conversion_cost(rows, cols) == ConversionCost{12, 3, 3});
  CHECK(conversion_cost(rows, cols, Op::none, MatrixPart::all, 2) == ConversionCost{8, 4, 4});
  CHECK(conversion_cost(rows, cols, Op::none, MatrixPart::all, 4) == ConversionCost{});
  // The last node has one rank.
  CHECK(conversion_cost(rows, cols, Op::none, MatrixPart::all, 3) == ConversionCost{6, 3, 3});
}

TEST_CASE("a conversion of 8192 x 8192 in blocks of 64 on 4096 ranks is planned in milliseconds")
{
  const Distribution cyclic{
      BlockCyclic{.shape = {8192, 8192}, .block = {64, 64}, .grid = {64, 64}}};
  const Distribution cube =
      Distribution::of<Cube3D::Input, Cube3D::Axes>({8192, 8192}, {16, 16, 16}, 16);
  const Distribution other{
      BlockCyclic{.shape = {8192, 8192}, .block = {48, 80}, .grid = {32, 128}, .row_source = 3}};
  for (const auto& [from, to] :
       {std::pair{cyclic, cube}, std::pair{cube, cyclic}, std::pair{cyclic, other}})
  {
    const auto begin = std::chrono::steady_clock::now();
    const detail::ConversionPlan plan{from, to, Op::transpose, MatrixPart::all, 77, 4096};
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    std::size_t held = 0;
    for (const auto* pairs : {&plan.receives, &plan.local})
      for (const detail::PatchPair& p : *pairs) held += p.elements;
    CHECK(held == to.stored(77));
    CAPTURE(took.count());
    // With optimization it takes a few milliseconds.
    CHECK((test::sanitized || took.count() < 200));
  }
}

}  // namespace cubist::test::foreign_conversion_plan_test
