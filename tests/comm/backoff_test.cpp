// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>

#include "cubist/comm/backoff.hpp"

#include "catch.hpp"

namespace comm_backoff_test
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

}  // namespace comm_backoff_test
