// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/saves.hpp"

#include "catch.hpp"
#include "message.hpp"

namespace cubist::test::plan_saves_test
{

/// A plan on 4 ranks with steps of a second, and 1e9 elements, a quarter of them on each rank.
static Plan quarter()
{
  Plan plan;
  plan.ranks = 4;
  plan.time.total = 1;
  plan.memory_parts.parameters = 1e9;
  plan.memory_parts.optimizer = 2e9;
  return plan;
}

static Machine slow_disk(double bytes_per_second)
{
  Machine machine;
  machine.memory_bandwidth = 6e9;
  machine.write_bandwidth = bytes_per_second;
  return machine;
}

TEST_CASE("saves are as far apart as Young's formula says")
{
  // The disk takes 12 GB in 6 s. A rank copies 3 GB, reading and writing 6 GB/s, in 1 s.
  const SavePlan saves = plan_saves(quarter(), 1e9, slow_disk(2e9), {}, 20'000);
  CHECK(saves.bytes == 12e9);
  CHECK(saves.copy == 3e9);
  CHECK(saves.stall == 1);
  CHECK(saves.write == 6);
  CHECK(saves.in_background.steps == 200);  // sqrt(2 * 1 * 20'000)
  CHECK(saves.in_background.seconds == 200);
  CHECK(saves.in_background.overhead == Approx(1.0 / 200 + 106.0 / 20'000));
  CHECK(saves.at_once.steps == 529);  // sqrt(2 * 7 * 20'000) = 529.2
  CHECK(saves.at_once.overhead == Approx(7.0 / 529 + 264.5 / 20'000));
}

TEST_CASE("saves in the background are no closer together than the disk can write them")
{
  const SavePlan saves = plan_saves(quarter(), 1e9, slow_disk(10e6), {}, 20'000);
  CHECK(saves.write == 1200);
  CHECK(saves.in_background.steps == 1200);
  // If steps are longer than the interval, there is one save for each.
  Plan slow = quarter();
  slow.time.total = 1e6;
  CHECK(plan_saves(slow, 1e9, slow_disk(2e9), {}, 20'000).in_background.steps == 1);
}

TEST_CASE("without a time between failures there is no interval")
{
  for (const double failures : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK(mentions(message_of<ArgumentError>(
                       [&] { (void)plan_saves(quarter(), 1e9, slow_disk(2e9), {}, failures); }),
                   "a failure every", "use a positive time"));
}

}  // namespace cubist::test::plan_saves_test
