// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>

#include "cubist/comm/backoff.hpp"

#include "catch.hpp"

using cubist::detail::Backoff;
using namespace std::chrono_literals;

TEST_CASE("a pause is at least a quarter of the time waited, once the first looks are over")
{
  Backoff backoff;
  for (int looks = 1; looks < 16; ++looks) backoff.pause();
  for (int pauses = 0; pauses < 40; ++pauses)
  {
    const auto before = backoff.waited();
    backoff.pause();
    const auto least = std::clamp<Backoff::Clock::duration>(before / 4, 2us, 500us);
    REQUIRE(backoff.waited() - before >= least);
  }
}
