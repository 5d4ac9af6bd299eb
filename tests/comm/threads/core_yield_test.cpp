// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/threads/core_yield.hpp"

#include "catch.hpp"

namespace cubist::test::comm_threads_core_yield_test
{

using namespace std::chrono_literals;
using cubist::detail::CoreYield;
using cubist::detail::SharedCores;

TEST_CASE("a process that had most of its cores shares them with none")
{
  const SharedCores::Time start{};
  SharedCores cores{2, start, 5s};
  CHECK_FALSE(cores.others_compute(start + 10ms, 5s + 20ms));
  CHECK_FALSE(cores.others_compute(start + 20ms, 5s + 35ms));
  CHECK(cores.others_compute(start + 30ms, 5s + 49ms));  // 14 of 20 ms since the last call
  CHECK(cores.others_compute(start + 40ms, 5s + 49ms));
  CHECK_FALSE(cores.others_compute(start + 50ms, 5s + 69ms));
}

TEST_CASE("a short time says nothing about cores, and a long one may have been idle")
{
  const SharedCores::Time start{};
  SharedCores cores{2, start, 0s};
  CHECK_FALSE(cores.others_compute(start + 1ms, 0s));
  CHECK(cores.others_compute(start + 5ms, 1ms));  // since the start: the call before did not count
  CHECK_FALSE(cores.others_compute(start + 1s, 1ms));
  CHECK(cores.others_compute(start + 1010ms, 11ms));  // since the call before
}

TEST_CASE("a rank yields until it is ready, but at most 8 times")
{
  // Fewer times if another process takes the core.
  CoreYield yield{2};
  int asked = 0;
  yield.until([&] { return ++asked == 3; }, 0us);
  CHECK(asked <= 3);
  asked = 0;
  yield.until([&] { return ++asked < 0; }, 0us);
  CHECK(asked <= 8);
}

}  // namespace cubist::test::comm_threads_core_yield_test
