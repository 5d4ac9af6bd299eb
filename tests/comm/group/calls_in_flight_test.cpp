// SPDX-License-Identifier: BSD-3-Clause
#include <deque>

#include "cubist/comm/group/calls_in_flight.hpp"

#include "catch.hpp"

namespace cubist::test::comm_group_calls_in_flight_test
{

using cubist::detail::CallsInFlight;

struct TestCall
{
  int from, to;
  std::uint64_t number;
  TestCall* next_in_flight = nullptr;
};

/// Messages between all pairs of 20 ranks, and collectives.
static std::deque<TestCall> all_calls()
{
  std::deque<TestCall> calls;
  for (int from = 0; from < 20; ++from)
    for (int to = 0; to < 20; ++to)
      for (std::uint64_t number = 0; number < 3; ++number) calls.push_back({from, to, number});
  for (std::uint64_t number = 0; number < 50; ++number) calls.push_back({-1, -1, number});
  return calls;
}

TEST_CASE("each call in flight is found by its ends and its number, until it is removed")
{
  auto calls = all_calls();
  CallsInFlight<TestCall> in_flight;
  CHECK(in_flight.find(0, 0, 0) == nullptr);
  for (auto& call : calls) in_flight.add(call);
  for (auto& call : calls) REQUIRE(in_flight.find(call.from, call.to, call.number) == &call);
  CHECK(in_flight.find(0, 0, 3) == nullptr);
  CHECK(in_flight.find(20, 0, 0) == nullptr);
  CHECK(in_flight.find(-1, -1, 50) == nullptr);
  for (std::size_t i = 0; i < calls.size(); i += 2) in_flight.remove(calls[i]);
  for (std::size_t i = 0; i < calls.size(); ++i)
    REQUIRE(in_flight.find(calls[i].from, calls[i].to, calls[i].number) ==
            (i % 2 == 0 ? nullptr : &calls[i]));
}

}  // namespace cubist::test::comm_group_calls_in_flight_test
