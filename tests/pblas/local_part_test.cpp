// SPDX-License-Identifier: BSD-3-Clause
#include "catch.hpp"
#include "local_part.hpp"

using namespace cubist;
using detail::IndexRun;
using detail::IndexSet;

TEST_CASE("what all parts of a grid store is copied once, a share by each of them")
{
  const BlockCyclic layout{.shape = {30, 4}, .block = {3, 2}, .grid = {3, 2}, .row_source = -1};
  constexpr std::size_t first = 4, size = 20;
  std::vector<int> copied(size);
  for (int part = 0; part < 3; ++part)
  {
    const IndexSet share = detail::share_of(detail::row_sets(layout), part, 3, first, size);
    CHECK(share.size() >= 6);
    IndexRun run;
    for (std::size_t x = 0; share.next(x, run); x = run.end)
    {
      CHECK(run.position == first + run.begin);
      for (std::size_t i = run.begin; i < run.end; ++i) ++copied[i];
    }
  }
  CHECK(copied == std::vector<int>(size, 1));
  // Each part copies what only it holds.
  const auto cols = detail::col_sets(layout);
  CHECK((detail::share_of(cols, 1, 2, 1, 3) == cols[1].window(1, 3)));
}

TEST_CASE("the part of a sub-matrix that a process has is consecutive in its array")
{
  // Rows 0-1, 4-5, 8-9 are on process row 0, columns 0-2 and 6-8 on process column 0.
  const SubMatrixPlace place{{.shape = {10, 9}, .block = {2, 3}, .grid = {2, 2}}, 1, 2};
  const auto part = detail::local_part(place, {5, 6}, 0);
  CHECK((part.row == 1 && part.col == 2 && part.shape == Shape{3, 3}));
  const auto [rows, cols] = detail::indices_of(place, {5, 6}, part, 0);
  CHECK(rows == std::vector<std::size_t>{0, 3, 4});  // 1, 4 and 5 of the whole matrix
  CHECK(cols == std::vector<std::size_t>{0, 4, 5});
  CHECK(detail::local_part(place, {5, 6}, 4).shape == Shape{});
}
