// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <vector>

#include "catch.hpp"
#include "move_to_core.hpp"

namespace cubist::test::pblas_move_to_core_test
{

[[nodiscard]] static std::vector<int> cores()
{
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  std::vector<int> numbers;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &all)) numbers.push_back(core);
  return numbers;
}

TEST_CASE("a thread moves to the core that is asked for, and may still run on all")
{
  const std::vector<int> all = cores();
  const int count = static_cast<int>(all.size());
  for (const int number : {0, 1, count - 1, count, 2 * count + 1})
  {
    CAPTURE(number, count);
    const int expected = all[static_cast<std::size_t>(number % count)];
    bool arrives = false;
    // Linux may move the thread again at once, but hardly each time.
    for (int attempt = 0; attempt < 1000 && !arrives; ++attempt)
    {
      detail::move_to_core(number);
      arrives = sched_getcpu() == expected;
    }
    CHECK(arrives);
    CHECK(cores() == all);
  }
}

TEST_CASE("only ranks that share cores move, and only for long products")
{
  CHECK(detail::is_worth_moving(4, 2, 1e9));
  CHECK_FALSE(detail::is_worth_moving(4, 4, 1e9));
  CHECK_FALSE(detail::is_worth_moving(4, 2, 1e6));
}

}  // namespace cubist::test::pblas_move_to_core_test
