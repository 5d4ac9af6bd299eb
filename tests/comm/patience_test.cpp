// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <chrono>

#include "cubist/comm/patience.hpp"

#include "catch.hpp"

using cubist::detail::Patience;
using namespace std::chrono_literals;

TEST_CASE("a pause is at least a quarter of the time waited, once the first looks are over")
{
  Patience patience;
  for (int looks = 1; looks < 16; ++looks) patience.pause();
  for (int pauses = 0; pauses < 40; ++pauses)
  {
    const auto before = patience.waited();
    patience.pause();
    const auto least = std::clamp<Patience::Clock::duration>(before / 4, 2us, 500us);
    REQUIRE(patience.waited() - before >= least);
  }
}
