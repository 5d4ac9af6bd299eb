// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "cubist/core/exclusive.hpp"

#include "catch.hpp"

using namespace cubist;

TEST_CASE("one turn at a time")
{
  Exclusive plan;
  {
    const auto turn = plan.turn("a plan");
    try
    {
      const auto second = plan.turn("a plan");
      FAIL("two turns at once");
    }
    catch (const ArgumentError& e)
    {
      CHECK(std::string{e.what()} ==
            "got a call of a plan that another call is in, so both would write to its workspace; "
            "give each thread its own");
    }
    CHECK_THROWS_AS(plan.turn("a plan"), ArgumentError);  // the one refused has ended nothing
    Exclusive copy = plan;
    CHECK_NOTHROW(copy.turn("a plan"));
  }
  CHECK_NOTHROW(plan.turn("a plan"));
}
