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
