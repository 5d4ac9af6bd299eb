// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/sum_partial.hpp"

#include "matrices.hpp"
#include "ranks.hpp"

namespace cubist::test::matrix_sum_partial_test
{

using B = Counting<TestBackend>;
using World = B::Communicator;
using Three = Axes<Depth, Row, Col>;
using Grid = AxisMesh<Three, B>;

TEST_CASE("sum_partial: a replicated sum sends twice the elements of one that is cut")
{
  const auto sent = on_ranks<B>(8, [](World& world) {
    const Grid mesh{world, {1, 2, 4}, 8};
    const DistMatrix<double, Layout<Rows<>, Cols<Row>, Partial<Col>>, Grid> parts{mesh, {16, 24}};
    const auto elements_sent = [&](auto sum) {
      world.traffic().reset();
      sum = parts;
      return world.traffic().total().elements;
    };
    return std::vector{
        elements_sent(DistMatrix<double, Layout<Rows<>, Cols<Row>>, Grid>{mesh, {16, 24}}),
        elements_sent(DistMatrix<double, Layout<Rows<Col>, Cols<Row>>, Grid>{mesh, {16, 24}}),
        elements_sent(DistMatrix<double, Layout<Rows<>, Cols<Row, Col>>, Grid>{mesh, {16, 24}})};
  });
  const std::uint64_t block = 16 * 12;
  for (const auto& elements : sent)
    CHECK(elements == std::vector<std::uint64_t>{2 * 3 * block / 4, 3 * block / 4, 3 * block / 4});
}

/// The part of element (i, j) on the rank with coordinate `c` along the pending axes.
template <class T>
T part(std::size_t i, std::size_t j, int c)
{
  return SmallIntegers::element<T>(hash(static_cast<std::uint64_t>(c), i, j));
}

/// This rank's coordinate along several axes.
template <class... A>
int coordinate(const Grid& mesh, Partial<A...>)
{
  int c = 0;
  ((c = c * mesh.extent<A>() + mesh.coordinate<A>()), ...);
  return c;
}
template <class... A>
int count(const Grid& mesh, Partial<A...>)
{
  return (1 * ... * mesh.extent<A>());
}

/// Checks that sum_partial sums parts of layout P into a matrix of layout L, which held other
/// elements before.
template <class P, class L, class T = double>
void check_sum(const Grid& mesh, Shape shape, Findings& found)
{
  DistMatrix<T, P, Grid> parts{mesh, shape};
  const int mine = coordinate(mesh, typename P::PartialAxes{});
  const int all = count(mesh, typename P::PartialAxes{});
  parts.generate([mine](std::size_t i, std::size_t j) { return part<T>(i, j, mine); });
  DistMatrix<T, L, Grid> sum{mesh, shape};
  DistMatrix<T, L, Grid> assigned{mesh, shape};
  sum.generate([](std::size_t, std::size_t) { return T{9}; });
  sum_partial(parts, sum);
  found.check(&(assigned = parts) == &assigned, "assignment returns another object");

  const Block& b = sum.block();
  for (std::size_t i = 0; i < b.rows.size; ++i)
    for (std::size_t j = 0; j < b.cols.size; ++j)
    {
      T wanted{};
      if (i < b.rows.valid && j < b.cols.valid)
        for (int c = 0; c < all; ++c) wanted += part<T>(b.rows.offset + i, b.cols.offset + j, c);
      found.check(sum.padded()(i, j) == wanted && assigned.padded()(i, j) == wanted, P::to_string(),
                  " to ", L::to_string(), " of ", shape, ", rank ", mesh.rank(), ": (", i, ", ", j,
                  ") is ", sum.padded()(i, j), ", not ", wanted);
    }
  found.check(true, "");  // blocks may be empty
}

const std::vector<Shape> shapes = {{0, 0}, {0, 5}, {5, 0}, {1, 1}, {2, 3}, {13, 7}, {24, 12}};
const std::vector<Three::Array> meshes = {{2, 2, 2}, {1, 2, 3}, {3, 1, 2}, {1, 1, 4}, {1, 1, 1}};

/// Calls check_sum on every mesh, for every shape.
template <class P, class... L>
void check_sums()
{
  for (const auto& extents : meshes)
  {
    if (!fits<B>(Three::ranks(extents))) continue;
    require_clear(on_ranks<B>(Three::ranks(extents), [&](World& world) {
      const Grid mesh{world, extents, 12};
      Findings found;
      for (const Shape shape : shapes) (check_sum<P, L>(mesh, shape, found), ...);
      return found;
    }));
  }
}

TEST_CASE("sum_partial: the sum is replicated or cut along the partial axis, with zero padding")
{
  check_sums<Layout<Rows<>, Cols<>, Partial<Col>>, Layout<Rows<>, Cols<>>,
             Layout<Rows<Col>, Cols<>>, Layout<Rows<>, Cols<Col>>>();
  check_sums<Layout<Rows<Depth>, Cols<Row>, Partial<Col>>, Layout<Rows<Depth>, Cols<Row>>,
             Layout<Rows<Depth, Col>, Cols<Row>>, Layout<Rows<Depth>, Cols<Row, Col>>>();
  check_sums<Layout<Rows<>, Cols<Col>, Partial<Row>>, Layout<Rows<>, Cols<Col>>,
             Layout<Rows<Row>, Cols<Col>>, Layout<Rows<>, Cols<Col, Row>>>();
}

TEST_CASE("sum_partial: parts along several axes are summed along all of them")
{
  check_sums<Layout<Rows<Row>, Cols<>, Partial<Depth, Col>>, Layout<Rows<Row>, Cols<>>>();
  check_sums<Layout<Rows<>, Cols<>, Partial<Depth, Row, Col>>, Layout<Rows<>, Cols<>>>();
}

TEMPLATE_TEST_CASE("sum_partial: other scalars", "", float, std::complex<double>)
{
  require_clear(on_ranks<B>(4, [](World& world) {
    const Grid mesh{world, {1, 2, 2}, 4};
    using Parts = Layout<Rows<>, Cols<Col>, Partial<Row>>;
    Findings found;
    check_sum<Parts, Layout<Rows<>, Cols<Col>>, TestType>(mesh, {5, 7}, found);
    check_sum<Parts, Layout<Rows<Row>, Cols<Col>>, TestType>(mesh, {5, 7}, found);
    check_sum<Parts, Layout<Rows<>, Cols<Col, Row>>, TestType>(mesh, {5, 7}, found);
    return found;
  }));
}

TEST_CASE("sum_partial: parts of another shape or on another mesh throw on every rank")
{
  for (const auto& m : on_ranks<B>(4, [](World& world) {
         const Grid mesh{world, {1, 2, 2}, 4};
         const Grid other{world, {1, 2, 2}, 4};
         const DistMatrix<double, Layout<Rows<>, Cols<>, Partial<Row>>, Grid> parts{mesh, {5, 7}};
         DistMatrix<double, Layout<Rows<>, Cols<>>, Grid> turned{mesh, {7, 5}};
         DistMatrix<double, Layout<Rows<>, Cols<>>, Grid> elsewhere{other, {5, 7}};
         return message_of<ShapeError>([&] { sum_partial(parts, turned); }) +
                message_of<MeshError>([&] { elsewhere = parts; });
       }))
    CHECK(mentions(m, "(5, 7) for a sum of (7, 5)", "give both the same shape",
                   "on a different mesh", "on the same mesh"));
}

TEST_CASE("sum_partial: parts whose blocks do not contain those of the sum throw on every rank")
{
  const auto messages = on_ranks<B>(4, [](World& world) {
    const Grid mesh{world, {1, 2, 2}, 2};
    const DistMatrix<double, Layout<Rows<Row>, Cols<>, Partial<Col>>, Grid> parts{mesh, {6, 5}};
    DistMatrix<double, Layout<Rows<Row, Col>, Cols<>>, Grid> sum{mesh, {6, 5}};
    return message_of<MeshError>([&] { sum = parts; });
  });
  // Blocks have 3 rows, or 2 where 6 rows are cut in 4.
  for (const auto& m : messages)
    CHECK(mentions(m, "blocks of 3 rows", "2 blocks of 2", "create the mesh with a quantum"));
}

}  // namespace cubist::test::matrix_sum_partial_test
