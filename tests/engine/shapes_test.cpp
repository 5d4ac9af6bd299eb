// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/engine/shapes.hpp"

#include "catch.hpp"

namespace cubist::test::engine_shapes_test
{

using Catch::Matchers::ContainsSubstring;

TEST_CASE("product_size is the size of op(A) op(B)")
{
  const ProductSize size = product_size(Op::transpose, {5, 2}, Op::none, {5, 3}, {2, 3});
  CHECK(size.m == 2);
  CHECK(size.n == 3);
  CHECK(size.k == 5);
  CHECK_NOTHROW(product_size(Op::none, {2, 5}, Op::adjoint, {3, 5}, {2, 3}));
}

TEST_CASE("shapes that do not fit are refused")
{
  CHECK_THROWS_WITH(product_size(Op::none, {2, 5}, Op::none, {4, 3}, {2, 3}),
                    ContainsSubstring("gemm got (2, 5) times (4, 3) for a result of (2, 3)"));
  CHECK_THROWS_AS(product_size(Op::none, {2, 5}, Op::none, {5, 3}, {3, 3}), ShapeError);
  CHECK_THROWS_AS(product_size(Op::none, {2, 5}, Op::none, {5, 3}, {2, 4}), ShapeError);
  CHECK_NOTHROW(require_shape({2, 3}, {2, 3}));
  CHECK_THROWS_WITH(require_shape({2, 3}, {3, 2}), ContainsSubstring("an operand of (2, 3)"));
}

}  // namespace cubist::test::engine_shapes_test
