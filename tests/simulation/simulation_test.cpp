// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/simulation/simulation.hpp"

#include "watchdog.hpp"

namespace cubist::test::simulation_simulation_test
{

using namespace cubist::detail;

static Machine machine(int ranks, double cores)
{
  Machine m;
  m.cores = cores;
  m.links = {{"memory", ranks, 0, 1}, {"network", 0, 0, 1}};
  return m;
}

struct Forever final : SimulatedWait
{
  [[nodiscard]] std::string describe() const override { return "something"; }
};

TEST_CASE("ranks go on in the order of their clocks")
{
  Simulation simulation{machine(3, 3), 3};
  std::vector<int> order;
  simulation.run([&](SimulatedRank& self) {
    for (int i = 0; i < 3; ++i)
    {
      simulation.compute(self, self.number + 1.0);
      simulation.catch_up(self);
      order.push_back(10 * self.number + i);
    }
  });
  // Rank r has computed for (i + 1) (r + 1) seconds; if times are equal, the lowest rank goes
  // first.
  CHECK(order == std::vector{0, 1, 10, 2, 20, 11, 12, 21, 22});
  CHECK(simulation.rank(2).report.seconds == 9);
}

TEST_CASE("ranks that share cores compute more slowly, the same on every run")
{
  for (int i = 0; i < 3; ++i)
  {
    Simulation simulation{machine(4, 2), 4};
    simulation.run([&](SimulatedRank& self) { simulation.compute(self, self.number < 2 ? 1 : 2); });
    // Four at half speed until 2; then two with a core each.
    for (int r = 0; r < 4; ++r) CHECK(simulation.rank(r).report.seconds == (r < 2 ? 2 : 3));
  }
}

TEST_CASE("ranks that all wait are a deadlock, which names what they wait for")
{
  const Watchdog watchdog;
  Simulation simulation{machine(2, 2), 2};
  std::string error;
  simulation.run([&](SimulatedRank& self) {
    try
    {
      if (self.number == 0) simulation.block(self, Forever{});
    }
    catch (const DeadlockError& e)
    {
      error = e.what();
    }
  });
  CHECK_THAT(error, Catch::Matchers::ContainsSubstring("rank 0 waits in something") &&
                        Catch::Matchers::ContainsSubstring("ranks {1} have returned"));
}

TEST_CASE("a rank that fails wakes those that wait, and those that call later")
{
  const Watchdog watchdog;
  Simulation simulation{machine(3, 3), 3};
  std::vector<int> failed(3);
  simulation.run([&](SimulatedRank& self) {
    try
    {
      if (self.number == 1)
      {
        self.clock = 1;
        simulation.catch_up(self);
        return simulation.fail(Simulation::Failure::peer_failed, "rank 1 failed");
      }
      if (self.number == 2)
      {
        self.clock = 2;
        simulation.catch_up(self);
      }
      simulation.block(self, Forever{});
    }
    catch (const PeerFailed&)
    {
      failed[static_cast<std::size_t>(self.number)] = 1;
    }
  });
  CHECK(failed == std::vector{1, 0, 1});
}

TEST_CASE("after its end a simulation refuses calls")
{
  Simulation simulation{machine(1, 1), 1};
  simulation.run([](SimulatedRank&) {});
  CHECK_THROWS_AS(simulation.raise(), CommunicationError);
}

}  // namespace cubist::test::simulation_simulation_test
