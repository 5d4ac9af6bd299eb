// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/foreign/distribution.hpp"
#include "cubist/scheme/cube3d.hpp"

#include "ranks.hpp"

namespace cubist::test::foreign_distribution_test
{

TEST_CASE("a block-cyclic distribution has the local sizes of ScaLAPACK's NUMROC")
{
  // 10 x 9 in blocks of 2 x 3 on 2 x 2, from process (1, 0): rows 2-3 and 6-7 are on row 0.
  const Distribution d{
      BlockCyclic{.shape = {10, 9}, .block = {2, 3}, .grid = {2, 2}, .row_source = 1}};
  CHECK(d.ranks() == 4);
  CHECK(d.local_shape(0) == Shape{4, 6});
  CHECK(d.local_shape(1) == Shape{4, 3});
  CHECK(d.local_shape(2) == Shape{6, 6});
  CHECK(d.local_shape(3) == Shape{6, 3});
  CHECK(d.local_shape(4) == Shape{});
  CHECK(d.stored(2) == 36);
  CHECK(d.local_order(0) == StorageOrder::column_major);
}

TEST_CASE("the first blocks of a distribution may have another size, even a larger one")
{
  const Distribution d{
      BlockCyclic{.shape = {10, 10}, .block = {2, 3}, .grid = {2, 2}, .first_block = {5, 1}}};
  CHECK(d.local_shape(0) == Shape{7, 4});  // rows 0-4, 7-8; columns 0, 4-6
  CHECK(d.local_shape(3) == Shape{3, 6});  // rows 5-6, 9; columns 1-3, 7-9
}

TEST_CASE("the processes of a grid are numbered by rows or by columns")
{
  const ProcessGrid by_rows{2, 3};
  const ProcessGrid by_cols{2, 3, StorageOrder::column_major};
  CHECK(by_rows.rank(1, 1) == 4);
  CHECK(by_cols.rank(1, 1) == 3);
  for (const auto& grid : {by_rows, by_cols})
    for (int rank = 0; rank < 6; ++rank) CHECK(grid.rank(grid.row(rank), grid.col(rank)) == rank);
}

TEST_CASE("the processes of a grid may be any ranks, each of them one")
{
  const Distribution d{BlockCyclic{.shape = {10, 9}, .block = {2, 3}, .grid = {2, 2}}};
  const Distribution moved = d.on_ranks({-1, 3, 0, -1, 1, 2});
  CHECK(moved.ranks() == 6);
  CHECK(moved.local_shape(0) == Shape{});
  CHECK(moved.local_shape(1) == d.local_shape(3));
  CHECK(moved.local_shape(2) == d.local_shape(0));
  CHECK(moved.held_shape(5) == d.held_shape(2));
  CHECK(moved.patches().all.size() == 4);
  CHECK_FALSE(moved == d);
  CHECK_THROWS_AS(d.on_ranks({0, 1, 2}), ArgumentError);
  CHECK_THROWS_AS(d.on_ranks({0, 1, 2, 3, 3}), ArgumentError);
}

TEST_CASE("a source of -1 replicates rows or columns")
{
  const Distribution d{
      BlockCyclic{.shape = {6, 4}, .block = {2, 2}, .grid = {2, 2}, .row_source = -1}};
  CHECK(d.local_shape(0) == Shape{6, 2});
  CHECK(d.local_shape(2) == Shape{6, 2});
  const detail::Patches p = d.patches();
  REQUIRE(p.groups.size() == 2);
  CHECK(p.groups[0] == std::vector<std::size_t>{0, 2});
  CHECK(p.groups[1] == std::vector<std::size_t>{1, 3});
}

TEST_CASE("one block a rank cuts both dimensions into parts of equal size")
{
  const Distribution d{one_block_a_rank({10, 7}, {3, 2})};
  CHECK(d.local_shape(0) == Shape{4, 4});
  CHECK(d.local_shape(5) == Shape{2, 3});
  CHECK(d.local_order(0) == StorageOrder::row_major);
  CHECK(Distribution{one_block_a_rank({0, 7}, {3, 2})}.local_shape(0) == Shape{0, 4});
}

TEST_CASE("a distribution refuses integers that no layout has")
{
  const auto error = [](const BlockCyclic& layout) {
    return message_of<ArgumentError>([&] { (void)Distribution(layout); });
  };
  CHECK(mentions(error({{4, 4}, {0, 2}, {2, 2}}), "blocks of 0 x 2", "positive"));
  CHECK(mentions(error({{4, 4}, {2, 2}, {2, 0}}), "grid of 2 x 0", "positive"));
  CHECK(mentions(error({{4, 4}, {2, 2}, {2, 2}, 2}), "process (2, 0)", "count from 0"));
  CHECK(mentions(error({{4, 4}, {2, 2}, {2, 2}, 0, -2}), "process (0, -2)", "replicated"));
}

using Rectangles = std::vector<RankRectangle>;

static std::string error_of(Shape shape, const Rectangles& list)
{
  return message_of<ShapeError>([&] { (void)Distribution(shape, list); });
}

TEST_CASE("a list of rectangles must hold each element once")
{
  const Shape shape{6, 8};
  const Rectangles good{{0, 0, 0, {6, 3}}, {1, 0, 3, {2, 5}}, {0, 2, 3, {4, 5}}, {2, 3, 4, {0, 2}}};
  const Distribution d{shape, good};
  CHECK(d.ranks() == 3);
  CHECK(d.local_arrays(0) == 2);
  CHECK(d.local_shape(0, 1) == Shape{4, 5});
  CHECK(d.local_arrays(1) == 1);
  CHECK(d.local_arrays(3) == 0);

  auto list = good;
  list[1].shape.rows = 3;
  CHECK(mentions(error_of(shape, list), "rectangle of (4, 5) at (2, 3) of rank 0",
                 "overlaps the rectangle of (3, 5) at (0, 3) of rank 1", "one rectangle"));
  list = good;
  list[2].shape.cols = 4;
  CHECK(mentions(error_of(shape, list), "hold 44 elements of a matrix of (6, 8)",
                 "4 elements have no rank"));
  list = good;
  list[1].j = 4;
  CHECK(mentions(error_of(shape, list), "(2, 5) at (0, 4) of rank 1", "not inside"));
  list = good;
  list[0].rank = -1;
  CHECK(mentions(message_of<ArgumentError>([&] { (void)Distribution(shape, list); }), "rank -1"));
  CHECK(error_of({0, 0}, {}).empty());
  CHECK(mentions(error_of({1, 1}, {}), "hold 0 elements"));
}

TEST_CASE("rectangles that each rank passes are checked on all ranks alike")
{
  if (!fits(4)) return;
  require_clear(on_ranks<TestBackend>(4, [](auto& world) {
    Findings found;
    const auto rank = static_cast<std::size_t>(world.rank());
    // Rank r has the rows r and 7 - r, but rank 3 has those of rank 2, which has none.
    Rectangles mine{{0, rank, 0, {1, 5}}, {0, 7 - rank, 0, {1, 5}, StorageOrder::column_major}};
    if (rank == 2) mine.clear();
    if (rank == 3) mine = {{0, 2, 0, {4, 5}}};
    const Distribution d = Distribution::gather(world, {8, 5}, mine);
    found.check(d.ranks() == 4 && d.local_arrays(2) == 0 && d.local_shape(3) == Shape{4, 5} &&
                    d.local_order(1, 1) == StorageOrder::column_major,
                "the list is another one");
    if (rank == 3) mine[0].shape.rows = 5;
    const auto error = message_of<ShapeError>([&] {
      (void)Distribution::gather(world, {8, 5}, mine);
    });
    found.check(mentions(error, "overlaps", "of rank 3", "of rank 1"), error);
    if (rank == 3) mine[0].shape.rows = 3;
    const auto missing = message_of<ShapeError>([&] {
      (void)Distribution::gather(world, {8, 5}, mine);
    });
    found.check(mentions(missing, "5 elements have no rank"), missing);
    return found;
  }));
}

TEST_CASE("the distribution of a DistMatrix is known from its mesh, or from extents alone")
{
  if (!fits(8)) return;
  require_clear(on_ranks<TestBackend>(8, [](auto& world) {
    Findings found;
    const Mesh<Cube3D, TestBackend> mesh{world};
    const DistMatrix<float, Cube3D::Weight, AxisMesh<Cube3D::Axes, TestBackend>> w{mesh, {7, 9}};
    const auto d = Distribution::of(w.view());
    found.check(
        d == Distribution::of<Cube3D::Weight, Cube3D::Axes>({7, 9}, mesh.extents(), mesh.quantum()),
        "differs");
    found.check(d.local_shape(world.rank()) == w.block().valid(), "another shape");
    return found;
  }));
}

TEST_CASE("a sub-matrix must lie inside")
{
  const Distribution d{BlockCyclic{.shape = {10, 9}, .block = {2, 3}, .grid = {2, 2}}};
  CHECK(d.submatrix(3, 4, {7, 5}).submatrix(1, 1, {2, 2}) == d.submatrix(4, 5, {2, 2}));
  CHECK(mentions(message_of<ShapeError>([&] {
                   (void)d.submatrix(3, 4, {8, 5});
                 }),
                 "(8, 5) at (3, 4)", "(10, 9)"));
}

}  // namespace cubist::test::foreign_distribution_test
