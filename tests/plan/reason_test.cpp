// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/plan/reason.hpp"

#include "ranks.hpp"

namespace cubist::test::plan_reason_test
{

/// A plan on 64 of 72 ranks that sends this many elements, and spends three quarters of its time in
/// products.
static Plan plan_with_words(double words)
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

const Rivals rivals{.of_same = 28, .least_words = 42, .unit = 100};

TEST_CASE("A reason compares the elements sent with those of meshes of as many ranks")
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
    CHECK(reason_for(plan_with_words(42), first, {})
              .find("the fastest of 28 meshes of 64 ranks; moves") == 0);
  }
  SECTION("one without rivals compares with nothing")
  {
    CHECK(mentions(reason_for(plan_with_words(42), {.of_same = 1, .unit = 100}, {}),
                   "moves 0.42 M·h a rank; products"));
  }
}

TEST_CASE("A reason compares the parts of the time with those of the fastest, or of the next")
{
  auto next = plan_with_words(42);
  next.scheme = "Summa2D";
  next.extents = {8, 8};
  next.time = {.total = 2, .products = 1.5, .inside = 0.25, .across = 0.25};
  const auto of = [&](const Time& time, bool first) {
    auto plan = plan_with_words(42);
    plan.time = time;
    auto with_next = rivals;
    with_next.first = first;
    with_next.other = &next;
    return reason_for(plan, with_next, {});
  };
  CHECK(mentions(of({.total = 1, .products = 0.5, .inside = 0.25, .across = 0.375}, true),
                 "the fastest of 28 meshes of 64 ranks; 50 % faster than Summa2D 8,8: products "
                 "-1e+03 ms, between nodes +125 ms; moves"));
  CHECK(of({.total = 3, .products = 1.5, .inside = 0.25, .across = 0.5}, false)
            .find("50 % slower than Summa2D 8,8: between nodes +250 ms; moves") == 0);
  CHECK(of({.total = 2.02, .products = 1.5, .inside = 0.25, .across = 0.25}, false)
            .find("1 % slower than Summa2D 8,8, less than the model's error of 5 %; moves") == 0);
  CHECK(of(next.time, false).find("as fast as Summa2D 8,8; moves") == 0);
  next.fits_memory = false;
  CHECK(of(next.time, true).find("the fastest of 28 meshes of 64 ranks; moves") == 0);
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

TEST_CASE("A reason for the direct method mentions no elements sent")
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
            .find("does not fit: needs 12 GiB a rank, but a rank has 8 GiB; moves 0.42") == 0);
}

}  // namespace cubist::test::plan_reason_test
