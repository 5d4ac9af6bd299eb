// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/host/engine.hpp"
#include "cubist/nn/embedding/row_lookup.hpp"

#include "catch.hpp"

namespace cubist::test::row_lookup_test
{

using Ends = std::vector<std::pair<int, int>>;

/// The sender and the receiver of each route.
static Ends ends(const std::vector<detail::LookupRoute>& routes)
{
  Ends all;
  for (const auto& route : routes) all.push_back({route.from, route.to});
  return all;
}

/// A block with rows [i, i + rows) and columns [j, j + cols).
static Block block(std::size_t i, std::size_t rows, std::size_t j, std::size_t cols)
{
  return {{i, rows, rows}, {j, cols, cols}};
}

TEST_CASE("a rank reads a block that it holds itself, and is sent one that it does not hold")
{
  // Rank 0 holds the table, and both ranks hold the matrix.
  const auto table = [](int rank) { return rank == 0 ? block(0, 5, 0, 2) : Block{}; };
  const auto matrix = [](int) { return block(0, 3, 0, 2); };
  const auto first = detail::lookup_routes(2, 0, table, matrix, true);
  CHECK(ends(first.receives) == Ends{{0, 0}});
  CHECK(ends(first.sends) == Ends{{0, 1}});
  const auto second = detail::lookup_routes(2, 1, table, matrix, true);
  CHECK(ends(second.receives) == Ends{{0, 1}});
  CHECK(second.sends.empty());
  CHECK(second.receives[0].rows.valid == 3);
  CHECK(second.receives[0].vocab.valid == 5);
  CHECK(second.receives[0].most_elements() == 6);  // three rows have at most three ids
  CHECK(first.receives[0].most_elements() == 0);
}

TEST_CASE("the replicas of a block share its other receivers, each beginning after its own rank")
{
  const auto table = [](int rank) { return rank == 0 || rank == 4 ? block(0, 5, 0, 2) : Block{}; };
  const auto matrix = [](int) { return block(0, 3, 0, 2); };
  CHECK(ends(detail::lookup_routes(6, 0, table, matrix, true).sends) == Ends{{0, 1}, {0, 2}});
  CHECK(ends(detail::lookup_routes(6, 4, table, matrix, true).sends) == Ends{{4, 5}, {4, 3}});
}

TEST_CASE("rows are sent in the columns that both blocks share")
{
  // The matrix's columns are cut in two, the table's in three.
  const auto table = [](int rank) { return block(0, 5, 2 * static_cast<std::size_t>(rank), 2); };
  const auto matrix = [](int rank) {
    return rank < 2 ? block(0, 4, 3 * static_cast<std::size_t>(rank), 3) : Block{};
  };
  const auto mine = detail::lookup_routes(3, 1, table, matrix, true);
  CHECK(ends(mine.receives) == Ends{{1, 1}, {2, 1}});
  CHECK(ends(mine.sends) == Ends{{1, 0}});
  CHECK(mine.receives[0].cols == 1);  // column 3
  CHECK(mine.receives[0].from_col == 1);
  CHECK(mine.receives[0].to_col == 0);
  CHECK(mine.receives[1].cols == 2);  // columns 4 and 5
  CHECK(mine.receives[1].from_col == 0);
  CHECK(mine.receives[1].to_col == 1);
  CHECK(mine.sends[0].cols == 1);  // column 2
  CHECK(mine.sends[0].to_col == 2);

  // Gradients go the other way.
  const auto back = detail::lookup_routes(3, 1, matrix, table, false);
  CHECK(ends(back.receives) == Ends{{0, 1}, {1, 1}});
  CHECK(back.receives[0].vocab.valid == 5);
  CHECK(back.receives[0].rows.valid == 4);
}

TEST_CASE("the routes of a rank ask for each block no more than twice")
{
  // On 1,024 ranks it matters that blocks are not asked for once for each pair of ranks.
  const int ranks = 64;
  int calls = 0;
  const auto table = [&](int rank) {
    ++calls;
    return block(3 * static_cast<std::size_t>(rank / 4), 3, 2 * static_cast<std::size_t>(rank % 4),
                 2);
  };
  const auto matrix = [&](int rank) {
    ++calls;
    return block(5 * static_cast<std::size_t>(rank / 2), 5, 4 * static_cast<std::size_t>(rank % 2),
                 4);
  };
  const auto mine = detail::lookup_routes(ranks, 7, table, matrix, true);
  CHECK(mine.receives.size() == 32);  // columns 4 to 7: two of four blocks in each of 16 rows
  CHECK(calls <= 3 * ranks);
}

TEST_CASE("distinct ids are numbered in the order of their first rows")
{
  detail::DistinctIds ids;
  ids.reserve(10, 6);
  const std::vector<int> all{9, 5, 3, 5, 8, 4};
  ids.find(all, {1, 5, 4}, {3, 5, 5});  // rows 1 to 4, and tokens 3 to 7
  REQUIRE(ids.size() == 2);
  CHECK(ids[0] == 5);
  CHECK(ids[1] == 3);
  CHECK(ids.number(5) == 0);
  CHECK(ids.number(3) == 1);
  for (const int other : {8, 4, 9}) CHECK(ids.number(other) == std::nullopt);

  ids.find(all, {4, 2, 2}, {0, 10, 10});
  CHECK(ids.size() == 2);
  CHECK(ids.number(8) == 0);
  CHECK(ids.number(5) == std::nullopt);
}

TEST_CASE("distinct ids are found in any vocabulary, with memory for the rows only")
{
  constexpr std::size_t rows = 500;
  detail::DistinctIds ids;
  ids.reserve(std::size_t{1} << 60, rows);
  for (const std::size_t step : {1U, 2U, 1024U, 65536U, 4'000'037U})
  {
    std::vector<int> all;
    for (std::size_t i = 0; i < rows; ++i) all.push_back(static_cast<int>(i * i % 263 * step));
    ids.find(all, {0, rows, rows}, {0, std::size_t{1} << 31, std::size_t{1} << 31});
    std::vector<int> wanted;
    for (const int id : all)
      if (std::find(wanted.begin(), wanted.end(), id) == wanted.end()) wanted.push_back(id);
    REQUIRE(ids.size() == wanted.size());
    bool same = true;
    for (std::size_t n = 0; n < wanted.size(); ++n)
      same &= ids.number(wanted[n]) == n && ids[n] == static_cast<std::size_t>(wanted[n]);
    CHECK(same);
    CHECK(ids.number(static_cast<int>(5 * step)) == std::nullopt);  // 5 is not a square modulo 263
  }
}

TEST_CASE("lists of rows are uploaded one after the other, and groups keep the order of their rows")
{
  detail::HostRowLists lists;
  lists.clear();
  lists.add(7, 2);
  const std::vector<std::optional<std::size_t>> groups{1, std::nullopt, 0, 1, 1};
  lists.add_grouped(
      2, groups.size(), [&](std::size_t i) { return groups[i]; },
      [](std::size_t l) { return 20 + l; });
  lists.add(8, 0);
  REQUIRE(lists.size() == 4);

  std::vector<int> memory(detail::HostRowLists::numbers(4, 6));
  lists.upload(HostEngine{}, memory.data());
  const std::vector<std::vector<int>> wanted{{2}, {2}, {0, 3, 4}, {0}};
  const std::vector<int> targets{7, 20, 21, 8};
  const RowLists middle = lists.part(1, 2, memory.data());
  CHECK(middle.count == 2);
  CHECK(middle.targets[0] == targets[1]);
  const RowLists whole = lists.part(0, 4, memory.data());
  for (std::size_t l = 0; l < 4; ++l)
  {
    CHECK(whole.targets[l] == targets[l]);
    CHECK(std::vector<int>(whole.rows + whole.starts[l], whole.rows + whole.starts[l + 1]) ==
          wanted[l]);
  }
  CHECK(middle.rows[middle.starts[1]] == 0);
}

}  // namespace cubist::test::row_lookup_test
