// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/backoff.hpp"

#include "catch.hpp"

namespace cubist::test::comm_backoff_test
{

using cubist::detail::Backoff;
using namespace std::chrono_literals;

TEST_CASE("a pause is at least a quarter of the time waited, after the first polls")
{
  Backoff backoff;
  for (int polls = 1; polls < 16; ++polls) backoff.pause();
  for (int pauses = 0; pauses < 40; ++pauses)
  {
    const auto before = backoff.waited();
    backoff.pause();
    const auto shortest = std::clamp<Backoff::Clock::duration>(before / 4, 2us, 500us);
    REQUIRE(backoff.waited() - before >= shortest);
  }
}

TEST_CASE("a backoff that is to yield for a while does not sleep in it")
{
  Backoff backoff{1h};
  int slept = 0;
  for (int polls = 0; polls < 100; ++polls) backoff.pause([&](auto) { ++slept; }, 2us, 500us);
  CHECK(slept == 0);
  Backoff sleeps;
  for (int polls = 0; polls < 100; ++polls) sleeps.pause([&](auto) { ++slept; }, 2us, 500us);
  CHECK(slept == 85);
}

}  // namespace cubist::test::comm_backoff_test
