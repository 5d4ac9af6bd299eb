// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "cubist/pblas/cyclic_dimension.hpp"

#include "catch.hpp"

using cubist::detail::CyclicDimension;
using cubist::detail::shared_reading;

namespace
{

/// A run as for_each_run passes it.
struct IndexRun
{
  std::size_t index;
  std::size_t local;
  std::size_t length;
};

std::vector<IndexRun> runs_of(const CyclicDimension& d, int part, std::size_t begin,
                              std::size_t end)
{
  std::vector<IndexRun> runs;
  d.for_each_run(part, begin, end, [&](std::size_t index, std::size_t local, std::size_t n) {
    runs.push_back({index, local, n});
  });
  return runs;
}

/// By going through the blocks one by one.
int owner_by_walk(const CyclicDimension& d, std::size_t index)
{
  int part = d.source;
  for (std::size_t end = d.first; index >= end; end += d.block) part = (part + 1) % d.parts;
  return part;
}

template <class F>
void for_each_dimension(F f)
{
  for (const std::size_t first : {1U, 2U, 5U})
    for (const std::size_t block : {1U, 3U, 4U})
      for (const int parts : {1, 2, 3, 4})
        for (int source = 0; source < parts; ++source)
          f(CyclicDimension{first, block, source, parts});
}

}  // namespace

TEST_CASE("indices are on the parts of the grid that ScaLAPACK puts them on")
{
  for_each_dimension([](const CyclicDimension& d) {
    CAPTURE(d.first, d.block, d.source, d.parts);
    std::vector<std::size_t> counts(static_cast<std::size_t>(d.parts));
    bool right = true;
    for (std::size_t i = 0; i < 40; ++i)
    {
      for (int part = 0; part < d.parts; ++part)
        right = right && d.count(part, i) == counts[static_cast<std::size_t>(part)];
      const int owner = owner_by_walk(d, i);
      right = right && d.owner(i) == owner && d.end_of_block(i) > i;
      ++counts[static_cast<std::size_t>(owner)];
    }
    CHECK(right);
  });
}

TEST_CASE("runs of all parts make up a range, each index once, in the order of the local arrays")
{
  for_each_dimension([](const CyclicDimension& d) {
    CAPTURE(d.first, d.block, d.source, d.parts);
    bool right = true;
    for (const std::size_t begin : {0U, 1U, 4U, 11U})
    {
      std::vector<int> seen(31);
      for (int part = 0; part < d.parts; ++part)
        for (const auto& run : runs_of(d, part, begin, 31))
          for (std::size_t i = 0; i < run.length; ++i)
          {
            right = right && owner_by_walk(d, run.index + i) == part &&
                    run.local + i == d.count(part, run.index + i);
            ++seen[run.index + i];
          }
      for (std::size_t i = 0; i < seen.size(); ++i) right = right && seen[i] == (i < begin ? 0 : 1);
    }
    CHECK(right);
  });
}

TEST_CASE("what all parts of the grid store is one run, and is read by each part in turn")
{
  const CyclicDimension d{2, 3, -1, 2};
  CHECK(d.count(1, 7) == 7);
  const auto all = runs_of(d, 1, 4, 9);
  REQUIRE(all.size() == 1);
  CHECK((all[0].index == 4 && all[0].local == 4 && all[0].length == 5));

  std::size_t read = 0;
  for (const int part : {0, 1})
    for (const auto& run : runs_of(shared_reading(d), part, 0, 20))
    {
      CHECK(run.local == run.index);
      read += run.length;
    }
  CHECK(read == 20);
}
