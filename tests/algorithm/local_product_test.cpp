// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/algorithm/local_product.hpp"
#include "cubist/scheme/cube3d.hpp"
#include "cubist/scheme/grid2d.hpp"
#include "cubist/scheme/megatron1d.hpp"

#include "catch.hpp"

namespace cubist::test::algorithm_local_product_test
{

template <class S>
using Local = LocalProduct<typename S::Input, typename S::Weight, typename S::Output>;

template <class A, class B>
inline constexpr bool same = std::is_same_v<A, B>;

TEST_CASE("The cube gathers X along y and W along z, and scatters Y along x")
{
  using L = Local<Cube3D>;
  STATIC_REQUIRE((same<L::M, Axes<AxisZ>> && same<L::K, Axes<AxisX>> && same<L::N, Axes<AxisY>>));
  STATIC_REQUIRE((L::Input::cut == Dimension::rows && same<L::Input::CollectiveAxes, Axes<AxisY>>));
  STATIC_REQUIRE(
      (L::Weight::cut == Dimension::rows && same<L::Weight::CollectiveAxes, Axes<AxisZ>>));
  STATIC_REQUIRE(
      (L::Output::cut == Dimension::rows && same<L::Output::CollectiveAxes, Axes<AxisX>>));
}

TEST_CASE("A grid of two axes gathers and scatters columns, and uses W in place")
{
  using L = Local<Grid2D>;
  STATIC_REQUIRE((same<L::M, Axes<>> && same<L::K, Axes<AxisX>> && same<L::N, Axes<AxisY>>));
  STATIC_REQUIRE((L::Input::cut == Dimension::cols && same<L::Input::CollectiveAxes, Axes<AxisY>>));
  STATIC_REQUIRE((L::Weight::cut == Dimension::none && same<L::Weight::CollectiveAxes, Axes<>>));
  STATIC_REQUIRE(
      (L::Output::cut == Dimension::cols && same<L::Output::CollectiveAxes, Axes<AxisX>>));
}

TEST_CASE(
    "A result that is replicated along an axis that cuts the inner dimension is summed along it")
{
  using Column = Local<Megatron1D>;
  STATIC_REQUIRE((Column::Input::cut == Dimension::none));
  STATIC_REQUIRE((same<Column::Input::CollectiveAxes, Axes<Tensor>>));
  STATIC_REQUIRE((same<Column::Output::CollectiveAxes, Axes<>>));
  using Row = Local<Megatron1D::Next>;
  STATIC_REQUIRE((same<Row::Input::CollectiveAxes, Axes<>> &&
                  same<Row::Output::CollectiveAxes, Axes<Tensor>>));
}

TEST_CASE("Rows that are cut between pairs are gathered and scattered")
{
  using Column = Local<Megatron1DSequence>;
  STATIC_REQUIRE((Column::Input::cut == Dimension::rows));
  STATIC_REQUIRE((same<Column::Input::CollectiveAxes, Axes<Tensor>>));
  STATIC_REQUIRE((same<Column::M, Axes<>> && same<Column::N, Axes<Tensor>>));
}

TEST_CASE("DistMatMul sums the gradient of replicated weights")
{
  using Rep = Layout<Rows<>, Cols<>>;
  using CutRows = Layout<Rows<Depth>, Cols<>>;
  using L = LocalProduct<CutRows, Rep, CutRows>;
  STATIC_REQUIRE((same<L::M, Axes<Depth>> && same<L::Weight::CollectiveAxes, Axes<>>));
}

}  // namespace cubist::test::algorithm_local_product_test
