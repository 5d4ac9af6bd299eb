// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include "cubist/training/progress.hpp"

#include "catch.hpp"

namespace cubist::test::progress_test
{

TEST_CASE("a report tells loss, rate, waits and the time that is left")
{
  const ProgressReport report{.step = 300,
                              .steps = 1000,
                              .loss = 2.10344,
                              .rate = 54321.4,
                              .waiting = 0.068,
                              .seconds_a_step = 0.185};
  const std::vector<NamedValue> metrics{{"held-out", 2.2}};
  CHECK(
      to_string(report, metrics) ==
      "step  300/1000  loss 2.1034  54321 tokens/s  waiting 7 %  2 min 10 s left  held-out 2.2000");
}

TEST_CASE("the last report leaves nothing, and samples without a number have no rate")
{
  CHECK(to_string(ProgressReport{.step = 7, .steps = 7, .loss = 1}) ==
        "step 7/7  loss 1.0000  waiting 0 %");
}

TEST_CASE("durations are rounded up to seconds, and to minutes after an hour")
{
  CHECK(detail::duration_text(0) == "0 s");
  CHECK(detail::duration_text(0.2) == "1 s");
  CHECK(detail::duration_text(59.5) == "1 min 0 s");
  CHECK(detail::duration_text(7384) == "2 h 3 min");
  CHECK(detail::duration_text(-1) == "0 s");
}

}  // namespace cubist::test::progress_test
