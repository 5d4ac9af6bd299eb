// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/group/split.hpp"

#include "catch.hpp"

namespace cubist::test::comm_group_split_test
{

using cubist::detail::GroupSplit;

TEST_CASE("the ranks of one colour share a group, ordered by key, then by rank")
{
  using Positions = std::vector<std::size_t>;
  GroupSplit<Positions> split{4};
  split.give(0, 7, 2);
  split.give(1, 4, 0);
  split.give(2, 7, 1);
  split.give(3, 7, 2);
  int made = 0;
  const auto make = [&](const Positions& positions) {
    ++made;
    return std::make_shared<Positions>(positions);
  };
  const auto [group, first] = split.group_of(0, make);
  CHECK(*group == Positions{2, 0, 3});
  CHECK(first == 1);
  CHECK(split.group_of(2, make).first == group);
  CHECK(split.group_of(2, make).second == 0);
  CHECK(split.group_of(3, make).second == 2);
  CHECK(*split.group_of(1, make).first == Positions{1});
  CHECK(made == 2);
}

}  // namespace cubist::test::comm_group_split_test
