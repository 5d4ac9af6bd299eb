// SPDX-License-Identifier: BSD-3-Clause
#include <string>

#include "cubist/plan/reason.hpp"

#include "catch.hpp"
#include "ranks.hpp"

namespace plan_reason_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

/// On 64 ranks of 72, 42 words in a unit of 100, three quarters of the time in products.
Plan plan_with_words(double words)
{
  Plan plan;
  plan.ranks = 64;
  plan.idle = 0;
  plan.words = words;
  plan.time = {.total = 4, .products = 3};
  plan.moves_weights = true;
  plan.moves_activations = true;
  return plan;
}

const Rivals rivals{.meshes = 96, .of_same = 28, .least_words = 42, .unit = 100};

}  // namespace

TEST_CASE("A reason compares words with meshes of as many ranks")
{
  CHECK(reason_for(plan_with_words(42), rivals, {}) ==
        "moves 0.42 M·h a rank, the least of 28 meshes of 64 ranks; products take 75 % of the "
        "time");
  CHECK(mentions(reason_for(plan_with_words(84), rivals, {}),
                 "moves 0.84 M·h a rank, 2 times the least of 28 meshes of 64 ranks; "));
  CHECK(mentions(reason_for(plan_with_words(0), rivals, {}), "moves nothing; products"));
  SECTION("the best of all says so")
  {
    auto first = rivals;
    first.first = true;
    CHECK(reason_for(plan_with_words(42), first, {}).find("the fastest of 96 meshes; moves") == 0);
  }
  SECTION("one without rivals compares with nothing")
  {
    CHECK(mentions(reason_for(plan_with_words(42), {.meshes = 9, .of_same = 1, .unit = 100}, {}),
                   "moves 0.42 M·h a rank; products"));
  }
}

TEST_CASE("A reason names matrices that are not sent, replicas, idle ranks and padding")
{
  auto plan = plan_with_words(42);
  plan.moves_weights = false;
  CHECK(mentions(reason_for(plan, rivals, {}), "; W never moves; products"));
  plan.weight_copies = 4;
  plan.moves_activations = false;
  CHECK(mentions(reason_for(plan, rivals, {}),
                 "; W never moves; X and Y never move; 4 replicas of W; "));
  plan.idle = 1;
  plan.padding = 0.125;
  CHECK(mentions(reason_for(plan, rivals, {}),
                 "75 % of the time, 12 % more for padding; 1 rank idle"));
  plan.idle = 8;
  CHECK(mentions(reason_for(plan, rivals, {}), "; 8 ranks idle"));
}

TEST_CASE("A reason of the direct method mentions no words")
{
  auto plan = plan_with_words(0);
  plan.method = Method::direct;
  plan.weight_copies = 4;
  CHECK(reason_for(plan, rivals, {}) ==
        "ranks read each other's blocks in place; 4 replicas of W; products take 75 % of the time");
}

TEST_CASE("A reason begins with the memory that a plan lacks")
{
  auto plan = plan_with_words(42);
  plan.fits_memory = false;
  plan.memory = 12.0 * (1 << 30);
  Machine machine;
  machine.links.front().ranks = 16;
  machine.memory = 128.0 * (1 << 30);
  auto first = rivals;
  first.first = true;
  CHECK(reason_for(plan, first, machine)
            .find("does not fit: needs 12 GiB a rank, which has 8 GiB; moves 0.42") == 0);
}

}  // namespace plan_reason_test
