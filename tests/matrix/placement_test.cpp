// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matrix/placement.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "placements.hpp"
#include "ranks.hpp"

namespace cubist::test::matrix_placement_test
{

TEST_CASE("intersection: the rectangle that two blocks share, without their padding")
{
  // Rows [i, i + m), of which the first `valid` are not padding, and columns [j, j + n).
  const auto block = [](std::size_t i, std::size_t m, std::size_t valid, std::size_t j,
                        std::size_t n) {
    return Block{{i, m, valid}, {j, n, n}};
  };
  const auto r = detail::intersection(block(2, 4, 4, 0, 5), block(4, 4, 1, 3, 5));
  CHECK(r.i == 4);
  CHECK(r.j == 3);
  CHECK(r.shape == Shape{1, 2});
  CHECK(detail::intersection(block(0, 4, 4, 0, 5), block(4, 4, 4, 0, 5)).empty());
  CHECK(detail::intersection(block(0, 4, 2, 0, 5), block(3, 4, 4, 0, 5)).empty());
}

TEST_CASE("replica_map: the ranks of each block that is not empty")
{
  const std::vector<Block> all = {{{0, 2, 2}, {0, 3, 3}},
                                  {{2, 2, 1}, {0, 3, 3}},
                                  {{0, 2, 2}, {0, 3, 3}},
                                  {{3, 2, 0}, {0, 3, 3}}};
  const auto map = detail::replica_map(4, [&](int r) { return all[static_cast<std::size_t>(r)]; });
  REQUIRE(map.size() == 2);
  CHECK(map.at({0, 0}) == std::vector<int>{0, 2});
  CHECK(map.at({2, 0}) == std::vector<int>{1});
}

TEST_CASE("Placement: shape and replicas, without padding")
{
  const auto a = blocks({7, 5}, 2, 3, 2);
  CHECK(a.ranks() == 12);
  CHECK(a.shape() == Shape{7, 5});
  CHECK(a[4].rows == Range{4, 4, 3});
  CHECK(a[4].cols == Range{2, 2, 2});
  CHECK(a.replica_map().at({4, 2}) == std::vector<int>{4, 10});
}

TEST_CASE("Placement: the transpose has the transposes of the blocks")
{
  const auto a = blocks({7, 5}, 2, 3).t();
  CHECK(a.transposed());
  CHECK(a.shape() == Shape{5, 7});
  CHECK(a[4].rows == Range{2, 2, 2});
  CHECK(a[4].cols == Range{4, 4, 3});
  CHECK_FALSE(a.t().transposed());
  CHECK(a.t().shape() == Shape{7, 5});
}

TEST_CASE("placement: the blocks of a layout on a mesh")
{
  require_clear(on_ranks<TestBackend>(8, [](auto& world) {
    const Mesh<Summa25D, TestBackend> mesh{world, {.q = 2, .d = 2}};
    using Weight = Summa25D::Weight;
    const detail::OperandBlocks<Weight, AxisMesh<Summa25D::Axes, TestBackend>> block{
        mesh, {9, 6}, mesh.quantum()};
    const auto w = block.placement();
    Findings found;
    found.check(w.ranks() == 8, "ranks");
    for (int r = 0; r < 8; ++r)
      found.check(w[r] == Weight::block<Summa25D::Axes>({9, 6}, mesh.extents(), mesh.coordinates(r),
                                                        mesh.quantum()),
                  "block of rank ", r);
    for (int r = 0; r < 8; ++r) found.check(block(r) == w[r], "the same block of rank ", r);
    found.check(w.replica_map().size() == 4, "replicas along depth");
    return found;
  }));
}

TEST_CASE("is_blockwise_product: the inner dimension is not cut, and the others are cut alike")
{
  const auto local = [](const detail::Placement& a, const detail::Placement& b,
                        const detail::Placement& c) {
    const auto of = [](const detail::Placement& p) { return [&](int rank) { return p[rank]; }; };
    return detail::is_blockwise_product(c.ranks(), a.shape().cols, of(a), of(b), of(c));
  };
  // A (7, 5), B (5, 9), C (7, 9)
  CHECK(local(blocks({7, 5}, 1, 1), blocks({5, 9}, 1, 1), blocks({7, 9}, 1, 1)));
  CHECK(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 1, 3), blocks({7, 9}, 1, 3)));
  CHECK(local(blocks({7, 5}, 3, 1), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 3, 1)));
  CHECK(local(blocks({5, 7}, 1, 3).t(), blocks({9, 5}, 1, 1, 3).t(), blocks({7, 9}, 3, 1)));
  // The inner dimension is cut.
  CHECK_FALSE(local(blocks({7, 5}, 1, 3), blocks({5, 9}, 3, 1), blocks({7, 9}, 1, 1, 3)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 3), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 1, 1, 3)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 3, 1), blocks({7, 9}, 1, 1, 3)));
  // C is cut differently from A's rows, or B's columns.
  CHECK_FALSE(local(blocks({7, 5}, 3, 1), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 1, 1, 3)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 1, 3), blocks({7, 9}, 3, 1)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 1, 3)));
  // One of two ranks holds the whole inner dimension of size 1, but the product is not blockwise.
  CHECK_FALSE(local(blocks({7, 1}, 1, 2), blocks({1, 9}, 2, 1), blocks({7, 9}, 1, 1, 2)));
}

}  // namespace cubist::test::matrix_placement_test
