// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <utility>

#include "cubist/foreign/index_set.hpp"

#include "catch.hpp"

namespace cubist::test::foreign_index_set_test
{

using detail::IndexRun;
using detail::IndexSet;

/// An index of a set, and its position in memory.
struct Held
{
  std::size_t index;
  std::size_t position;
  friend bool operator==(const Held&, const Held&) = default;
};
using List = std::vector<Held>;

static List all_of(const IndexSet& set)
{
  List found;
  IndexRun run;
  for (std::size_t x = 0; set.next(x, run); x = run.end)
    for (std::size_t i = run.begin; i < run.end; ++i)
      found.push_back({i, run.position + (i - run.begin)});
  return found;
}

TEST_CASE("a window of a window, and a set that is packed or begins at another position")
{
  const IndexSet cyclic = IndexSet::cyclic(23, 2, 3, 1, 2);  // 2-4, 8-10, 14-16, 20-22
  const IndexSet window = cyclic.window(1, 18).window(2, 12);
  CHECK((window == cyclic.window(3, 12)));
  CHECK(all_of(window) == List{{0, 1}, {1, 2}, {5, 3}, {6, 4}, {7, 5}, {11, 6}});
  CHECK(window.first_position() == 1);
  CHECK(all_of(window.packed()) == List{{0, 0}, {1, 1}, {5, 2}, {6, 3}, {7, 4}, {11, 5}});
  CHECK(all_of(window.packed(9)).back() == Held{11, 14});
  CHECK(window.packed(9).stored() == 15);
  CHECK(cyclic.window(5, 2).first_position() == 3);  // it has none of these, and 3 before them
  const IndexSet interval = IndexSet::interval(4, 3, 10);
  CHECK(all_of(interval) == List{{4, 10}, {5, 11}, {6, 12}});
  CHECK(all_of(interval.window(5, 9)) == List{{0, 11}, {1, 12}});
  CHECK(interval.stored() == 13);
}

/// A set, and the indices that it holds by definition.
struct Case
{
  IndexSet set;
  List held;
};

/// The case for those indices of `all` that are in a window.
static Case in_window(const IndexSet& set, const List& all, std::size_t lo, std::size_t n)
{
  Case c{set.window(lo, n), {}};
  for (const Held& h : all)
    if (h.index >= lo && h.index < lo + n) c.held.push_back({h.index - lo, h.position});
  return c;
}

static std::vector<Case> cases_of_23_indices()
{
  constexpr std::size_t n = 23;
  std::vector<Case> all;
  const auto add = [&](const IndexSet& set, const List& held) {
    CHECK(set.stored() == held.size());
    for (const std::size_t lo : std::array<std::size_t, 5>{0, 1, 7, 22, 23})
      for (const std::size_t size : std::array<std::size_t, 4>{0, 1, 5, 23})
        if (lo + size <= n) all.push_back(in_window(set, held, lo, size));
  };
  for (const auto& [begin, size] :
       {std::pair<std::size_t, std::size_t>{0, 23}, {0, 4}, {7, 9}, {22, 1}, {5, 0}})
  {
    List held;
    for (std::size_t k = 0; k < size; ++k) held.push_back({begin + k, k});
    add(IndexSet::interval(begin, size), held);
  }
  for (const std::size_t first : std::array<std::size_t, 4>{1, 2, 5, 30})
    for (const std::size_t block : std::array<std::size_t, 4>{1, 3, 4, 40})
      for (const std::size_t parts : std::array<std::size_t, 4>{1, 2, 3, 5})
        for (std::size_t place = 0; place < parts; ++place)
        {
          List held;
          std::size_t of_block = 0;
          for (std::size_t i = 0; i < n; ++i)
          {
            if (i >= first) of_block = 1 + (i - first) / block;
            if (of_block % parts == place) held.push_back({i, held.size()});
          }
          add(IndexSet::cyclic(n, first, block, place, parts), held);
        }
  return all;
}

TEST_CASE("an index set finds its runs, and their positions in memory")
{
  for (const auto& [set, held] : cases_of_23_indices())
  {
    CHECK(all_of(set) == held);
    CHECK(set.size() == held.size());
    for (std::size_t x = 0; x <= 24; ++x)
    {
      std::size_t below = 0;
      for (const Held& h : held) below += h.index < x ? 1U : 0U;
      CHECK(set.count_below(x) == below);
      IndexRun run;
      REQUIRE(set.next(x, run) == (below < held.size()));
      if (below < held.size()) CHECK(Held{run.begin, run.position} == held[below]);
    }
  }
}

TEST_CASE("two index sets have their common runs in order")
{
  const auto cases = cases_of_23_indices();
  // Every 7th set is combined with every 5th one, so that sets of all kinds and windows meet.
  for (std::size_t a = 0; a < cases.size(); a += 7)
    for (std::size_t b = 0; b < cases.size(); b += 5)
    {
      std::vector<std::array<std::size_t, 3>> wanted;
      for (const Held& x : cases[a].held)
        for (const Held& y : cases[b].held)
          if (x.index == y.index) wanted.push_back({x.index, x.position, y.position});
      std::vector<std::array<std::size_t, 3>> found;
      detail::for_each_common_run(
          cases[a].set, cases[b].set,
          [&](std::size_t begin, std::size_t size, std::size_t in_a, std::size_t in_b) {
            for (std::size_t k = 0; k < size; ++k) found.push_back({begin + k, in_a + k, in_b + k});
          });
      REQUIRE(found == wanted);
      REQUIRE(detail::common_size(cases[a].set, cases[b].set) == wanted.size());
    }
}

}  // namespace cubist::test::foreign_index_set_test
