// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <optional>

#include "cubist/scheme/work_cut.hpp"

#include "catch.hpp"

using namespace cubist;
using namespace cubist::detail;

namespace
{

/// What each of `rows` x `cols` ranks makes that have equal blocks of the result.
std::optional<WorkCut> better(ProductSize s, std::size_t rows, std::size_t cols)
{
  return better_cut(s, rows * cols, {ceil_div(s.m, rows), ceil_div(s.n, cols), s.k});
}

}  // namespace

TEST_CASE("Results that are cut well are made in place")
{
  CHECK_FALSE(better({2048, 2048, 2048}, 2, 2));
  CHECK_FALSE(better({2048, 2048, 2048}, 4, 2));
  CHECK_FALSE(better({4096, 4096, 1024}, 2, 4));
  CHECK_FALSE(better({8192, 256, 256}, 8, 1));
  CHECK_FALSE(better({8192, 256, 256}, 2, 2));
}

TEST_CASE("The inner indices are cut where the result is small")
{
  CHECK(better({256, 256, 65536}, 2, 4) == WorkCut{1, 1, 8});
  CHECK(better({256, 256, 65536}, 2, 2) == WorkCut{1, 1, 4});
}

TEST_CASE("A result in strips is made in squares")
{
  CHECK(better({4096, 4096, 4096}, 64, 1) == WorkCut{8, 8, 1});
  CHECK(better({4096, 4096, 4096}, 1, 64) == WorkCut{8, 8, 1});
}

TEST_CASE("A product too small to wait for each other once more is made in place")
{
  CHECK_FALSE(better({16, 16, 512}, 8, 1));
  CHECK_FALSE(better({0, 0, 0}, 2, 2));
}

TEST_CASE("A result that not all ranks have a part of is made by all")
{
  // One row of 64 is rank 0's on 8 x 1 ranks.
  const auto cut = better({1, 64, 1 << 20}, 8, 1);
  REQUIRE(cut);
  CHECK(cut->m == 1);
  CHECK(cut->n * cut->k == 8);
}
