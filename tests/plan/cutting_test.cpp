// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/cutting.hpp"
#include "cubist/scheme/grid3d.hpp"
#include "cubist/scheme/summa25d.hpp"

#include "catch.hpp"

namespace cubist::test::plan_cutting_test
{

TEST_CASE("The axes of a tuple have the extents and strides of the mesh")
{
  using A = Axes<Depth, Row, Col>;
  const auto t = cubist::detail::tuple_of<A>(Rows<Col, Depth>{}, {2, 3, 5});
  REQUIRE(t.size() == 2);
  CHECK(t[0].extent == 5);
  CHECK(t[0].stride == 1);
  CHECK(t[1].extent == 2);
  CHECK(t[1].stride == 15);
  CHECK(t.innermost().index == 0);
  CHECK(t.parts() == 10);
  SECTION("nothing cuts into one part")
  {
    const auto none = cubist::detail::tuple_of<A>(Cols<>{}, {2, 3, 5});
    CHECK(none.parts() == 1);
    CHECK(none.innermost().extent == 1);
  }
}

TEST_CASE("Blocks are those of the layouts")
{
  const Grid3D::Axes::Array e{2, 3, 4};
  const ProductSize size{37, 23, 101};
  const auto p = cubist::detail::cut_product<Grid3D>(e, size);
  const auto block = [&]<class L>(L, Shape shape) {
    return L::template block<Grid3D::Axes>(shape, e, {1, 2, 3}, Grid3D::quantum(e)).padded();
  };
  CHECK(p.x.block == block(Grid3D::Input{}, {size.m, size.k}));
  CHECK(p.w.block == block(Grid3D::Weight{}, {size.k, size.n}));
  CHECK(p.y.block == block(Grid3D::Output{}, {size.m, size.n}));
  CHECK(p.pending.size() == 0);
}

TEST_CASE("Blocks have the quanta of their product")
{
  const Grid3D::Axes::Array e{2, 3, 4};
  const std::size_t q = Grid3D::quantum(e);
  const ProductSize size{37, 23, 101};
  const auto p = cubist::detail::cut_product<Grid3D>(e, size, {.m = 5 * q, .n = 2 * q});
  const auto block = [&]<class L>(L, Shape shape, Quanta quanta) {
    return L::template block<Grid3D::Axes>(shape, e, {1, 2, 3}, quanta).padded();
  };
  CHECK(p.x.block == block(Grid3D::Input{}, {size.m, size.k}, {5 * q, q}));
  CHECK(p.w.block == block(Grid3D::Weight{}, {size.k, size.n}, {q, 2 * q}));
  CHECK(p.y.block == block(Grid3D::Output{}, {size.m, size.n}, {5 * q, 2 * q}));
}

TEST_CASE("The gradient of replicated weights is pending along their axis")
{
  const auto p = cubist::detail::cut_product<Summa25D>({3, 2, 2}, {24, 24, 24});
  REQUIRE(p.pending.size() == 1);
  CHECK(p.pending[0].extent == 3);
  CHECK(p.pending[0].stride == 4);
}

}  // namespace cubist::test::plan_cutting_test
