// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/trace/rank_trace.hpp"

#include "catch.hpp"

namespace cubist::test::trace_rank_trace_test
{

/// A clock that advances by 1 s with each reading.
static double tick()
{
  static double time = 0;
  return time += 1;
}

/// A clock that advances by half a second with each reading.
static double half_tick()
{
  static double time = 0;
  return time += 0.5;
}

TEST_CASE("a trace keeps its events in order, however many they are")
{
  detail::RankTrace trace{&tick};
  constexpr std::size_t count = 10'000;
  for (std::size_t i = 0; i < count; ++i) trace.add({.name = {"event", i}});
  CHECK(trace.size() == count);
  const auto events = trace.events();
  REQUIRE(events.size() == count);
  bool in_order = true;
  for (std::size_t i = 0; i < count; ++i) in_order = in_order && events[i].name.numbers[0] == i;
  CHECK(in_order);
}

TEST_CASE("spans nest, and a pause records nothing")
{
  detail::RankTrace trace{&tick};
  detail::rank_local() = &trace;
  {
    const detail::TraceSpan outer{"outer", {.category = TraceCategory::part}};
    {
      const TracePause pause;
      const detail::TraceSpan inner{"paused", {.category = TraceCategory::part}};
    }
    const detail::TraceSpan inner{"inner", {.category = TraceCategory::pass}};
  }
  detail::rank_local() = nullptr;
  const auto events = trace.events();
  REQUIRE(events.size() == 2);
  CHECK(events[0].name.to_string() == "inner");
  CHECK(events[1].name.to_string() == "outer");
  CHECK(events[1].begin < events[0].begin);
  CHECK(events[0].end < events[1].end);
}

TEST_CASE("a trace with a clock of the processor says how long each event had one")
{
  detail::RankTrace trace{&tick, &half_tick};
  detail::rank_local() = &trace;
  {
    const detail::TraceSpan outer{"outer", {.category = TraceCategory::part}};
    const detail::TraceSpan inner{"inner", {.category = TraceCategory::pass, .bytes = 12}};
  }
  detail::rank_local() = nullptr;
  const double before = trace.processor_now();
  trace.add_wait({.name = "wait", .begin = trace.now()}, before);
  detail::rank_local() = &trace;
  detail::traced_wait("call", [] {});
  detail::rank_local() = nullptr;
  const auto events = trace.events();
  REQUIRE(events.size() == 4);
  CHECK(events[3].processor == 0.5);
  CHECK(events[0].processor == 0.5);
  CHECK(events[0].bytes == 12);
  CHECK(events[1].processor == 1.5);
  CHECK(events[2].processor == 0.5);
  detail::RankTrace without{&tick};
  without.add_wait({.name = "wait", .begin = without.now()});
  CHECK(without.events().front().processor < 0);
}

TEST_CASE("a wait is recorded if it takes longer than a call that only looks")
{
  detail::RankTrace trace{&tick};
  CHECK(detail::traced_wait("nothing is recorded", [] { return 3; }) == 3);
  detail::rank_local() = &trace;
  CHECK(detail::traced_wait({"wait for", 7}, [] { return 4; }) == 4);
  detail::rank_local() = nullptr;
  TraceEvent looked{.name = "look"};
  looked.begin = trace.now() + 1;  // no time later
  trace.add_wait(looked);
  const auto events = trace.events();
  REQUIRE(events.size() == 1);
  CHECK(events[0].name.to_string() == "wait for 7");
  CHECK(events[0].category == TraceCategory::wait);
}

}  // namespace cubist::test::trace_rank_trace_test
