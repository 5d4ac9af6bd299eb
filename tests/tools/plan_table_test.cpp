// SPDX-License-Identifier: BSD-3-Clause
#include "catch.hpp"
#include "plan_table.hpp"

namespace cubist::test::tools_plan_table_test
{

TEST_CASE("a time has three digits and the unit in which it is at least 1")
{
  CHECK(time_text(1.5) == "1.5 s");
  CHECK(time_text(0.9996) == "1 s");
  CHECK(time_text(0.9994) == "999 ms");
  CHECK(time_text(0.0123) == "12.3 ms");
  CHECK(time_text(0.9996e-3) == "1 ms");
  CHECK(time_text(0.9994e-3) == "999 us");
  CHECK(time_text(0) == "0 us");
}

}  // namespace cubist::test::tools_plan_table_test
