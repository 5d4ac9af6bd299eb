// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/core/call_guard.hpp"

#include "catch.hpp"

namespace cubist::test::core_call_guard_test
{

TEST_CASE("a second call is refused until the first one ends")
{
  CallGuard guard;
  {
    const auto call = guard.enter("a plan");
    CHECK_THROWS_WITH(
        guard.enter("a plan"),
        "got a call of a plan while another call is in progress, so both would write to the same "
        "workspace; give each thread its own object");
    CHECK_THROWS_AS(guard.enter("a plan"),
                    ArgumentError);  // the refused call did not end the first
    CallGuard copy = guard;
    CHECK_NOTHROW(copy.enter("a plan"));
  }
  CHECK_NOTHROW(guard.enter("a plan"));
}

}  // namespace cubist::test::core_call_guard_test
