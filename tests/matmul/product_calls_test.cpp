// SPDX-License-Identifier: BSD-3-Clause
#include <string>
#include <vector>

#include "cubist/core/error.hpp"
#include "cubist/matmul/product_calls.hpp"

#include "catch.hpp"

namespace matmul_product_calls_test
{

using namespace cubist;

namespace
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

}  // namespace

TEST_CASE("a call of a product is a span, named after the scheme, the product and its size")
{
  detail::ProductCalls calls{"Summa2D", {.m = 4, .n = 5, .k = 6}};
  const ShowingEngine engine;
  {
    const auto call = calls.enter(engine, "forward");
    engine.seen.emplace_back("inside");
  }
  CHECK(engine.seen == std::vector<std::string>{"begin Summa2D forward 4x5x6", "inside", "end"});
}

TEST_CASE("two calls at a time are refused, and only the first is a span")
{
  detail::ProductCalls calls{"Summa2D", {.m = 1, .n = 1, .k = 1}};
  const ShowingEngine engine;
  {
    const auto call = calls.enter(engine, "forward");
    CHECK_THROWS_AS(calls.enter(engine, "backward"), ArgumentError);
    const detail::ProductCalls copy = calls;
    CHECK_NOTHROW(detail::ProductCalls{copy}.enter(engine, "backward"));
  }
  CHECK(engine.seen.size() == 4);
  CHECK_NOTHROW(calls.enter(OtherEngine{}, "backward"));
}

}  // namespace matmul_product_calls_test
