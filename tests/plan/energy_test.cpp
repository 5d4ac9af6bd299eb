// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/energy.hpp"

#include "catch.hpp"

namespace cubist::test::plan_energy_test
{

TEST_CASE("A step takes the energy of its nodes, more while they compute")
{
  // Nodes with 4 ranks, which use 1 kW, or 3 kW while they compute, and cost 8 an hour
  Machine machine;
  machine.links.front().ranks = 4;
  machine.idle_watts = 1000;
  machine.busy_watts = 3000;
  machine.hour_price = 8;
  Plan plan;
  plan.ranks = 8;
  plan.time = {.total = 3600, .products = 1350, .passes = 450};
  // Two nodes of 2 kW.
  const auto energy = energy_of(plan, machine);
  CHECK(energy.kilowatt_hours == Approx(4));
  CHECK(energy.price == Approx(16));
  const auto run = 10 * energy;
  CHECK((run.seconds == 36'000 && run.kilowatt_hours == Approx(40) && run.price == Approx(160)));
  SECTION("nodes are whole, and ranks that are idle compute nothing")
  {
    plan.ranks = 6;
    plan.idle = 3;
    // Three nodes of 1 kW + 2 kW x 1/2 x 6/12.
    CHECK(energy_of(plan, machine).kilowatt_hours == Approx(3 * 1.5));
    CHECK(energy_of(plan, machine).price == Approx(24));
  }
  SECTION("what overlaps does not compute longer than the step")
  {
    plan.time.products = 9000;
    CHECK(energy_of(plan, machine).kilowatt_hours == Approx(6));
  }
}

TEST_CASE("A machine without watts and price is refused")
{
  Plan plan;
  plan.time.total = 1;
  CHECK_THROWS_WITH(energy_of(plan, {}),
                    Catch::Matchers::ContainsSubstring("neither watts nor a price"));
  Machine machine;
  machine.hour_price = 1;
  CHECK(energy_of(plan, machine).kilowatt_hours == 0);
}

}  // namespace cubist::test::plan_energy_test
