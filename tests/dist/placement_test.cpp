// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>

#include "cubist/dist/placement.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "backend.hpp"
#include "catch.hpp"
#include "placements.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;

TEST_CASE("a placement knows the matrix that its blocks make, padding aside")
{
  const auto a = blocks({7, 5}, 2, 3, 2);
  CHECK(a.ranks() == 12);
  CHECK(a.shape() == Shape{7, 5});
  CHECK(a[4].rows == Range{4, 4, 3});
  CHECK(a[4].cols == Range{2, 2, 2});
  CHECK(a.holders().at({4, 2}) == std::vector<int>{4, 10});
}

TEST_CASE("the transpose of a placement has the transposes of its blocks")
{
  const auto a = blocks({7, 5}, 2, 3).t();
  CHECK(a.transposed());
  CHECK(a.shape() == Shape{5, 7});
  CHECK(a[4].rows == Range{2, 2, 2});
  CHECK(a[4].cols == Range{4, 4, 3});
  CHECK_FALSE(a.t().transposed());
  CHECK(a.t().shape() == Shape{7, 5});
}

TEST_CASE("a mesh has the blocks that its layout says")
{
  if (!fits(8)) return;
  require_clear(on_ranks<TestBackend>(8, [](auto& world) {
    const Mesh<Summa25D, TestBackend> mesh{world, {.q = 2, .d = 2}};
    using Weight = Summa25D::Weight;
    const auto w = detail::placement<Weight>(mesh, {9, 6}, Op::none);
    Findings found;
    found.check(w.ranks() == 8, "ranks");
    for (int r = 0; r < 8; ++r)
      found.check(w[r] == Weight::block<Summa25D::Axes>({9, 6}, mesh.extents(), mesh.coordinates(r),
                                                        mesh.quantum()),
                  "block of rank ", r);
    found.check(w.holders().size() == 4, "replicas along depth");
    return found;
  }));
}

TEST_CASE("blocks multiply where they lie if the inner dimension is whole and the others agree")
{
  const auto local = [](const detail::Placement& a, const detail::Placement& b,
                        const detail::Placement& c) {
    return detail::multiplies_blockwise(a, b, c);
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
  // C is cut otherwise than A's rows, or B's columns.
  CHECK_FALSE(local(blocks({7, 5}, 3, 1), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 1, 1, 3)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 1, 3), blocks({7, 9}, 3, 1)));
  CHECK_FALSE(local(blocks({7, 5}, 1, 1, 3), blocks({5, 9}, 1, 1, 3), blocks({7, 9}, 1, 3)));
  // One rank of two has all of an inner dimension of one: the ranks agree that it is not local.
  CHECK_FALSE(local(blocks({7, 1}, 1, 2), blocks({1, 9}, 2, 1), blocks({7, 9}, 1, 1, 2)));
}
