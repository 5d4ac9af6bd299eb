// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/matmul/product_calls.hpp"

#include "ranks.hpp"

namespace cubist::test::matmul_product_calls_test
{

struct ShowingEngine
{
  mutable std::vector<std::string> seen;

  void begin_span(const SpanName& name) const { seen.push_back("begin " + name.to_string()); }
  void end_span() const { seen.emplace_back("end"); }
};
struct OtherEngine
{
};

TEST_CASE("a call of a product is a span, named after the scheme, the product and its size")
{
  cubist::detail::ProductCalls calls{"Summa2D", {.m = 4, .n = 5, .k = 6}};
  const ShowingEngine engine;
  {
    const auto call = calls.enter(engine, "forward");
    engine.seen.emplace_back("inside");
  }
  CHECK(engine.seen == std::vector<std::string>{"begin Summa2D forward 4x5x6", "inside", "end"});
}

TEST_CASE("two calls at a time are refused, and only the first is a span")
{
  cubist::detail::ProductCalls calls{"Summa2D", {.m = 1, .n = 1, .k = 1}};
  const ShowingEngine engine;
  {
    const auto call = calls.enter(engine, "forward");
    CHECK_THROWS_AS(calls.enter(engine, "backward"), ArgumentError);
    const cubist::detail::ProductCalls copy = calls;
    CHECK_NOTHROW(cubist::detail::ProductCalls{copy}.enter(engine, "backward"));
  }
  CHECK(engine.seen.size() == 4);
  CHECK_NOTHROW(calls.enter(OtherEngine{}, "backward"));
}

TEST_CASE("an operand has the product's shape, padding and mesh, or is refused")
{
  constexpr ProductSize size{.m = 4, .n = 8, .k = 6};
  CHECK_NOTHROW(cubist::detail::require_operand("X", {4, 6}, {4, 6}, {2, 2}, {2, 2}, true, size));
  CHECK(mentions(message_of<ShapeError>([&] {
                   cubist::detail::require_operand("X", {4, 7}, {4, 6}, {}, {}, true, size);
                 }),
                 "X is (4, 7)", "m = 4, n = 8, k = 6", "needs (4, 6)", "make the plan for"));
  CHECK(mentions(message_of<MeshError>([&] {
                   cubist::detail::require_operand("W", {6, 8}, {6, 8}, {}, {}, false, size);
                 }),
                 "got W of (6, 8) on a different mesh", "make it on the product's mesh"));
  CHECK(mentions(message_of<ShapeError>([&] {
                   cubist::detail::require_operand("X", {4, 6}, {4, 6}, {2, 3}, {2, 6}, true, size);
                 }),
                 "got X of (4, 6) padded to multiples of 2 rows and 3 columns", "of 2 and 6"));
}

TEST_CASE("quanta of a product are those of the mesh, or multiples of them")
{
  const auto quanta = cubist::detail::or_of_mesh({.m = 6, .n = 0, .k = 2}, 2);
  CHECK(quanta.m == 6);
  CHECK(quanta.n == 2);
  CHECK(quanta.k == 2);
  CHECK_FALSE(message_of<MeshError>([] { (void)cubist::detail::or_of_mesh({.m = 3}, 2); }).empty());
}

TEST_CASE("a result that is an operand, too, is refused")
{
  const int a = 0;
  const int b = 0;
  const int c = 0;
  CHECK_NOTHROW(cubist::detail::require_distinct("Y", &a, {&b, &c}));
  for (const auto* other : {&b, &c})
    CHECK(mentions(message_of<ArgumentError>([&] {
                     cubist::detail::require_distinct("Y", other, {&a, &b, &c});
                   }),
                   "got the same matrix for Y and for another operand",
                   "pass a separate matrix for Y"));
}

}  // namespace cubist::test::matmul_product_calls_test
