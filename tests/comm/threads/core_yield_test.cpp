// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/threads/core_yield.hpp"

#include "catch.hpp"

namespace cubist::test::comm_threads_core_yield_test
{

using namespace std::chrono_literals;
using cubist::detail::CoreYield;
using cubist::detail::RankCores;
using cubist::detail::SharedCores;

TEST_CASE("a process that had most of its cores shares them with none")
{
  const SharedCores::Time start{};
  SharedCores cores{2, start, 5s};
  CHECK_FALSE(cores.others_compute(start + 10ms, 5s + 20ms, 2));
  CHECK_FALSE(cores.others_compute(start + 20ms, 5s + 35ms, 2));
  CHECK(cores.others_compute(start + 30ms, 5s + 49ms, 2));  // 14 of 20 ms since the last call
  CHECK(cores.others_compute(start + 40ms, 5s + 49ms, 2));
  CHECK_FALSE(cores.others_compute(start + 50ms, 5s + 69ms, 2));
}

TEST_CASE("a short time says nothing about cores, and a long one may have been idle")
{
  const SharedCores::Time start{};
  SharedCores cores{2, start, 0s};
  CHECK_FALSE(cores.others_compute(start + 1ms, 0s, 2));
  CHECK(
      cores.others_compute(start + 5ms, 1ms, 2));  // since the start: the call before did not count
  CHECK_FALSE(cores.others_compute(start + 1s, 1ms, 2));
  CHECK(cores.others_compute(start + 1010ms, 11ms, 2));  // since the call before
}

TEST_CASE("a process needs only the cores on which its ranks compute, and at least one")
{
  const SharedCores::Time start{};
  const auto others_compute = [&](int needed_before, int needed, auto had) {
    SharedCores cores{2, start, 0s};
    (void)cores.others_compute(start + 10ms, 20ms, needed_before);
    return cores.others_compute(start + 20ms, 20ms + had, needed);
  };
  CHECK(others_compute(2, 2, 10ms));
  CHECK_FALSE(others_compute(1, 1, 10ms));
  CHECK_FALSE(others_compute(1, 2, 10ms));
  CHECK_FALSE(others_compute(2, 1, 10ms));
  CHECK(others_compute(1, 1, 5ms));
  CHECK(others_compute(0, 0, 5ms));
}

TEST_CASE("a rank yields until it is ready, but at most 8 times")
{
  // Fewer times if another process takes the core.
  CoreYield yield{2};
  const RankCores ranks{1};
  int asked = 0;
  yield.until([&] { return ++asked == 3; }, 0us, ranks);
  CHECK(asked <= 3);
  asked = 0;
  yield.until([&] { return ++asked < 0; }, 0us, ranks);
  CHECK(asked <= 8);
}

}  // namespace cubist::test::comm_threads_core_yield_test
