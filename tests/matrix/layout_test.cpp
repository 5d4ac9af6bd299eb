// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/matrix/layout.hpp"

#include "catch.hpp"

namespace cubist::test::matrix_layout_test
{

TEST_CASE("Layout: only dimensions that are cut are padded, by less than a quantum")
{
  using Whole = Layout<Rows<>, Cols<Col>>;
  const Axes<Row, Col>::Array extents{2, 3};
  for (std::size_t n = 0; n < 20; ++n)
  {
    const Block b = Whole::block<Axes<Row, Col>>({n, n}, extents, {0, 0}, 6);
    CHECK(b.padded().rows == n);
    CHECK(3 * b.padded().cols >= n);
    CHECK(3 * b.padded().cols < n + 6);
  }
}

/// The blocks of all ranks of a mesh, and the ranks that hold the first replicas.
struct Cutting
{
  std::vector<Block> blocks;
  std::vector<std::size_t> primaries;
};

template <class L, class A>
Cutting cutting(Shape shape, const typename A::Array& extents, std::size_t quantum)
{
  Cutting c;
  for (int rank = 0; rank < A::ranks(extents); ++rank)
  {
    const auto at = A::coordinates(rank, extents);
    c.blocks.push_back(L::template block<A>(shape, extents, at, quantum));
    if (L::template is_primary<A>(at)) c.primaries.push_back(static_cast<std::size_t>(rank));
  }
  return c;
}

/// For each element, the number of blocks that hold it.
static std::vector<int> coverage(Shape shape, const std::vector<Block>& blocks)
{
  std::vector<int> count(shape.size());
  for (const Block& b : blocks)
    for (std::size_t i = 0; i < b.rows.valid; ++i)
      for (std::size_t j = 0; j < b.cols.valid; ++j)
        ++count.at((b.rows.offset + i) * shape.cols + b.cols.offset + j);
  return count;
}

/// Checks what holds for every layout, mesh and shape.
template <class L, class A>
void check_laws(Shape shape, const typename A::Array& extents, std::size_t quantum)
{
  CAPTURE(L::to_string(), A::to_string(extents), shape, quantum);
  const auto c = cutting<L, A>(shape, extents, quantum);

  std::vector<Block> primary;
  for (const auto r : c.primaries) primary.push_back(c.blocks[r]);
  CHECK(coverage(shape, primary) == std::vector<int>(shape.size(), 1));
  const auto replicas = c.blocks.size() / c.primaries.size();
  CHECK(coverage(shape, c.blocks) == std::vector<int>(shape.size(), static_cast<int>(replicas)));

  for (const Block& b : c.blocks)
  {
    CHECK(b.padded() == c.blocks[0].padded());
    CHECK((b.rows.valid <= b.rows.size && b.rows.offset + b.rows.valid <= shape.rows));
    CHECK((b.cols.valid <= b.cols.size && b.cols.offset + b.cols.valid <= shape.cols));
  }
}

const std::vector<Shape> shapes = {{0, 0},  {0, 7},   {1, 1},    {7, 0},   {2, 3},
                                   {5, 13}, {12, 24}, {37, 101}, {64, 64}, {97, 2}};

template <class A, class... L>
void check_all(const std::vector<typename A::Array>& meshes)
{
  for (const auto& extents : meshes)
    for (const Shape shape : shapes)
    {
      const auto quantum = static_cast<std::size_t>(A::ranks(extents));
      (check_laws<L, A>(shape, extents, quantum), ...);
      (check_laws<L, A>(shape, extents, 3 * quantum), ...);
      (check_laws<L, A>(shape, extents, 1), ...);
      (check_laws<L, A>(shape, extents, 2), ...);
    }
}

TEST_CASE("Layout: blocks partition the matrix, on two axes")
{
  check_all<Axes<Row, Col>, Layout<Rows<Row>, Cols<Col>>, Layout<Rows<>, Cols<Col>>,
            Layout<Rows<Col>, Cols<Row>>, Layout<Rows<>, Cols<Row, Col>>, Layout<Rows<>, Cols<>>>(
      {{1, 1}, {2, 2}, {2, 3}, {4, 1}, {1, 5}, {7, 3}});
}

using Three = Axes<Depth, Row, Col>;
using Cube = Axes<AxisX, AxisY, AxisZ>;

TEST_CASE("Layout: blocks partition the matrix, on three axes")
{
  check_all<Three, Layout<Rows<Depth, Row>, Cols<Col>>, Layout<Rows<Row>, Cols<Col>>,
            Layout<Rows<>, Cols<Col>>, Layout<Rows<Depth>, Cols<>>>(
      {{1, 1, 1}, {2, 2, 2}, {4, 1, 1}, {3, 2, 2}, {2, 3, 3}});
  check_all<Cube, Layout<Rows<AxisZ, AxisY>, Cols<AxisX>>, Layout<Rows<AxisX, AxisZ>, Cols<AxisY>>,
            Layout<Rows<AxisZ, AxisX>, Cols<AxisY>>, Layout<Rows<>, Cols<AxisZ, AxisX, AxisY>>>(
      {{1, 1, 1}, {2, 2, 2}, {3, 3, 3}, {2, 3, 4}, {5, 1, 2}});
}

/// Calls f(here, there) with the coordinates of each pair of neighbours along an axis.
template <class A, class Axis, class F>
void for_neighbours(const typename A::Array& extents, F f)
{
  constexpr auto i = A::template index<Axis>();
  for (int rank = 0; rank < A::ranks(extents); ++rank)
  {
    auto at = A::coordinates(rank, extents);
    if (at[i] + 1 == extents[i]) continue;
    const auto here = at;
    ++at[i];
    f(here, at);
  }
}

TEST_CASE("Layout: ranks that differ along uncut axes only hold the same block")
{
  using L = Layout<Rows<Row>, Cols<Col>>;
  const Three::Array extents{3, 2, 2};
  const Shape shape{37, 11};
  for_neighbours<Three, Depth>(extents, [&](const auto& here, const auto& there) {
    CHECK(L::block<Three>(shape, extents, here, 12) == L::block<Three>(shape, extents, there, 12));
  });
  CHECK(cutting<L, Three>(shape, extents, 12).primaries == std::vector<std::size_t>{0, 1, 2, 3});
  CHECK(cutting<Layout<Rows<>, Cols<Col>>, Three>(shape, extents, 12).primaries ==
        std::vector<std::size_t>{0, 1});
  CHECK(cutting<Layout<Rows<>, Cols<>>, Three>(shape, extents, 12).primaries ==
        std::vector<std::size_t>{0});
}

/// Whether the second range begins where the first ends, including padding.
static bool follows(const Range& a, const Range& b, std::size_t n)
{
  return b.offset == std::min(a.offset + a.size, n) && (b.valid == 0 || a.valid == a.size);
}

TEST_CASE("Layout: blocks along the innermost axis are consecutive, along an outer axis not")
{
  using L = Layout<Rows<AxisZ, AxisY>, Cols<AxisX>>;
  const Cube::Array extents{2, 3, 2};
  const auto quantum = static_cast<std::size_t>(Cube::ranks(extents));
  for (const Shape shape : shapes)
  {
    const auto block = [&](const Cube::Array& at) {
      return L::block<Cube>(shape, extents, at, quantum);
    };
    for_neighbours<Cube, AxisY>(extents, [&](const auto& here, const auto& there) {
      CHECK(follows(block(here).rows, block(there).rows, shape.rows));
      CHECK(block(here).cols == block(there).cols);
    });
    for_neighbours<Cube, AxisX>(extents, [&](const auto& here, const auto& there) {
      CHECK(follows(block(here).cols, block(there).cols, shape.cols));
      CHECK(block(here).rows == block(there).rows);
    });
  }
  // 12 rows with z = 2 and y = 3: a step along z skips the three pieces along y.
  const auto at_z = [&](int z) {
    return L::block<Cube>({12, 2}, extents, {0, 0, z}, 12).rows.offset;
  };
  CHECK(at_z(0) == 0);
  CHECK(at_z(1) == 6);
}

TEST_CASE("Layout: a cut dimension is padded to a multiple of the quantum and the parts")
{
  // 13 rows in 6 parts are 24 with padding.
  using L = Layout<Rows<Row, Col>, Cols<>>;
  const Block b = L::block<Axes<Row, Col>>({13, 7}, {2, 3}, {1, 0}, 4);
  CHECK(b == Block{{12, 4, 1}, {0, 7, 7}});
}

TEST_CASE("Layout: with more ranks than rows some blocks are padding only")
{
  using L = Layout<Rows<Row>, Cols<>>;
  const auto c = cutting<L, Axes<Row>>({2, 3}, {4}, 4);
  CHECK(c.blocks[1] == Block{{1, 1, 1}, {0, 3, 3}});
  CHECK(c.blocks[2] == Block{{2, 1, 0}, {0, 3, 3}});
  CHECK(c.blocks[3] == Block{{2, 1, 0}, {0, 3, 3}});
}

TEST_CASE("Layout: cuts and to_string")
{
  using L = Layout<Rows<Depth, Row>, Cols<Col>>;
  STATIC_REQUIRE(L::cuts<Depth>);
  STATIC_REQUIRE(L::cuts<Col>);
  STATIC_REQUIRE_FALSE(L::cuts<AxisX>);
  CHECK(L::to_string() == "rows [depth row] cols [col]");
  CHECK(Layout<Rows<>, Cols<>>::to_string() == "rows [] cols []");
}

TEST_CASE("Layout: partial axes are part of the type, and the default is none")
{
  STATIC_REQUIRE(
      std::is_same_v<Layout<Rows<Row>, Cols<Col>, Partial<>>, Layout<Rows<Row>, Cols<Col>>>);
  STATIC_REQUIRE_FALSE(Layout<Rows<Row>, Cols<Col>>::is_partial);
  STATIC_REQUIRE(Layout<Rows<Row>, Cols<>, Partial<Col>>::is_partial);
  STATIC_REQUIRE_FALSE(Layout<Rows<Row>, Cols<>, Partial<Col>>::cuts<Col>);
  CHECK(Layout<Rows<Row>, Cols<>, Partial<Depth, Col>>::to_string() ==
        "rows [row] cols [] partial [depth col]");
}

TEST_CASE(
    "Layout: parts have the blocks of their sum, and first replicas of each part partition it")
{
  using Sum = Layout<Rows<Row>, Cols<>>;
  using Parts = Layout<Rows<Row>, Cols<>, Partial<Col>>;
  for (const Three::Array extents : {Three::Array{2, 3, 2}, {1, 2, 4}, {3, 1, 1}})
    for (const Shape shape : shapes)
    {
      CAPTURE(Three::to_string(extents), shape);
      const auto parts = cutting<Parts, Three>(shape, extents, 12);
      CHECK(parts.blocks == cutting<Sum, Three>(shape, extents, 12).blocks);
      for (int part = 0; part < extents[2]; ++part)
      {
        std::vector<Block> primary;
        for (const auto r : parts.primaries)
          if (Three::coordinates(static_cast<int>(r), extents)[2] == part)
            primary.push_back(parts.blocks[r]);
        CHECK(coverage(shape, primary) == std::vector<int>(shape.size(), 1));
      }
    }
}

TEST_CASE("RowVector is cut as the columns are")
{
  using L = Layout<Rows<Depth, Row>, Cols<Col>>;
  STATIC_REQUIRE(std::is_same_v<RowVector<L>, Layout<Rows<>, Cols<Col>>>);
}

TEST_CASE("PendingAxes: the axes that cut the sum and hold replicas of the parameter")
{
  using Weight = Layout<Rows<Row>, Cols<Col>>;
  using Bias = Layout<Rows<>, Cols<Col>>;
  using Tokens = Rows<Depth, Row>;
  STATIC_REQUIRE(std::is_same_v<PendingAxes<Weight, Tokens>::type, Axes<Depth>>);
  STATIC_REQUIRE(std::is_same_v<PendingAxes<Bias, Tokens>::type, Axes<Depth, Row>>);
  STATIC_REQUIRE(std::is_same_v<PendingAxes<Weight, Rows<Row>>::type, Axes<>>);
  STATIC_REQUIRE(std::is_same_v<PendingAxes<Weight, Rows<>>::type, Axes<>>);
}

}  // namespace cubist::test::matrix_layout_test
