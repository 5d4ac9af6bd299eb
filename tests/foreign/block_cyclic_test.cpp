// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/block_cyclic.hpp"

#include "catch.hpp"
#include "foreign_matrices.hpp"

namespace cubist::test::foreign_block_cyclic_test
{

using detail::IndexRun;
using detail::IndexSet;

static std::vector<std::size_t> indices_of(const IndexSet& set)
{
  std::vector<std::size_t> found;
  IndexRun run;
  for (std::size_t x = 0; set.next(x, run); x = run.end)
    for (std::size_t i = run.begin; i < run.end; ++i) found.push_back(i);
  return found;
}

TEST_CASE("indices are on the parts of the grid that ScaLAPACK puts them on")
{
  constexpr std::size_t n = 40;
  for (const std::size_t first : std::array<std::size_t, 4>{0, 1, 2, 5})
    for (const std::size_t block : std::array<std::size_t, 3>{1, 3, 4})
      for (const int parts : {1, 2, 3, 4})
        for (int source = 0; source < parts; ++source)
        {
          CAPTURE(first, block, parts, source);
          const auto sets = detail::cyclic_sets(n, first, block, source, parts);
          REQUIRE(sets.size() == static_cast<std::size_t>(parts));
          for (int part = 0; part < parts; ++part)
            CHECK(indices_of(detail::set_of(sets, part)) ==
                  test::cyclic_indices(n, first, block, source, part, parts));
        }
}

TEST_CASE("what all parts of the grid hold is one set")
{
  const BlockCyclic layout{.shape = {7, 9}, .block = {2, 3}, .grid = {2, 2}, .row_source = -1};
  const auto rows = detail::windows(detail::row_sets(layout), 1, 5);
  REQUIRE(rows.size() == 1);
  CHECK((rows[0] == IndexSet::interval(0, 7).window(1, 5)));
  CHECK(detail::set_of(rows, 1).first_position() == 1);
  CHECK(detail::col_sets(layout).size() == 2);
}

}  // namespace cubist::test::foreign_block_cyclic_test
