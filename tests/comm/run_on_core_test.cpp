// SPDX-License-Identifier: BSD-3-Clause
#include <thread>

#include <sched.h>

#include "cubist/comm/run_on_core.hpp"

#include "catch.hpp"

namespace cubist::test::comm_run_on_core_test
{

TEST_CASE("a thread moves to a core, and may still run on the same cores as before")
{
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &allowed))
    {
      CAPTURE(core);
      bool arrives = false;
      cpu_set_t after;
      // Linux may move the thread again at once, but hardly each time.
      std::thread moving{[&] {
        for (int attempt = 0; attempt < 1000 && !arrives; ++attempt)
        {
          cubist::detail::run_on_core(core, allowed);
          arrives = sched_getcpu() == core;
        }
        sched_getaffinity(0, sizeof after, &after);
      }};
      moving.join();
      CHECK(arrives);
      CHECK(CPU_EQUAL(&after, &allowed));
    }
}

TEST_CASE("a thread stays where it is if it may not run on the core")
{
  cpu_set_t allowed, after;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int absent = CPU_SETSIZE - 1;
  if (CPU_ISSET(static_cast<unsigned>(absent), &allowed)) return;
  cubist::detail::run_on_core(absent, allowed);
  REQUIRE(sched_getaffinity(0, sizeof after, &after) == 0);
  CHECK(CPU_EQUAL(&after, &allowed));
}

}  // namespace cubist::test::comm_run_on_core_test
