// SPDX-License-Identifier: BSD-3-Clause
#include <set>

#include "cubist/mesh/axes.hpp"

#include "catch.hpp"

namespace cubist::test::mesh_axes_test
{

using Three = Axes<Depth, Row, Col>;

template <class A>
void ranks_and_coordinates_are_a_bijection(const typename A::Array& extents)
{
  std::set<typename A::Array> seen;
  for (int rank = 0; rank < A::ranks(extents); ++rank)
  {
    const auto c = A::coordinates(rank, extents);
    for (std::size_t i = 0; i < A::count; ++i) CHECK((c[i] >= 0 && c[i] < extents[i]));
    CHECK(A::rank(c, extents) == rank);
    seen.insert(c);
  }
  CHECK(seen.size() == static_cast<std::size_t>(A::ranks(extents)));
}

TEST_CASE("Ranks and coordinates are a bijection")
{
  for (const int d : {1, 2, 3})
    for (const int r : {1, 2, 5})
      for (const int c : {1, 3, 4})
      {
        ranks_and_coordinates_are_a_bijection<Three>({d, r, c});
        ranks_and_coordinates_are_a_bijection<Axes<Row, Col>>({r, c});
      }
  ranks_and_coordinates_are_a_bijection<Axes<AxisX>>({7});
}

TEST_CASE("The last axis varies fastest")
{
  using Array = Three::Array;
  const Array extents{2, 3, 4};
  CHECK(Three::ranks(extents) == 24);
  CHECK(Three::coordinates(0, extents) == Array{0, 0, 0});
  CHECK(Three::coordinates(1, extents) == Array{0, 0, 1});
  CHECK(Three::coordinates(4, extents) == Array{0, 1, 0});
  CHECK(Three::coordinates(12, extents) == Array{1, 0, 0});
  CHECK(Three::coordinates(23, extents) == Array{1, 2, 3});
}

TEST_CASE("A set of axes knows its members and their order")
{
  STATIC_REQUIRE(Three::count == 3);
  STATIC_REQUIRE(Three::has<Row>);
  STATIC_REQUIRE_FALSE(Three::has<AxisX>);
  STATIC_REQUIRE(Three::index<Depth>() == 0);
  STATIC_REQUIRE(Three::index<Row>() == 1);
  STATIC_REQUIRE(Three::index<Col>() == 2);
  STATIC_REQUIRE(is_one_of<Row, Depth, Row>);
  STATIC_REQUIRE_FALSE(is_one_of<Row>);
}

TEST_CASE("Axes print with their names and extents")
{
  CHECK(Three::to_string({2, 3, 4}) == "depth 2 x row 3 x col 4");
  CHECK(Axes<AxisX, AxisY, AxisZ>::to_string({1, 2, 3}) == "x 1 x y 2 x z 3");
  CHECK(Three::name(0) + std::string{" "} + Three::name(2) == "depth col");
}

TEST_CASE("More ranks than can be counted are the largest number of them")
{
  constexpr int most = std::numeric_limits<int>::max();
  CHECK(Axes<Row, Col>::ranks({65536, 65536}) == most);
  CHECK(Three::ranks({most, most, most}) == most);
  CHECK(Three::ranks({1, most, 1}) == most);
}

}  // namespace cubist::test::mesh_axes_test
