// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/request.hpp"

#include "catch.hpp"

namespace cubist::test::comm_request_test
{

/// Counts the calls of its functions.
struct CountingGroup
{
  using Member = int;

  void wait(int&) { ++waits; }
  bool test(int&) { return complete; }
  void release(int&) { ++releases; }
  void abandon(int&) { ++abandoned; }

  bool complete = false;
  int waits = 0;
  int releases = 0;
  int abandoned = 0;
};

using Call = cubist::detail::PendingCall<CountingGroup>;

TEST_CASE("a pending call is a request")
{
  STATIC_REQUIRE(Request<Call>);
  STATIC_REQUIRE_FALSE(Request<int>);
}

TEST_CASE("a request is released once, by the wait or the test that completes it")
{
  const auto group = std::make_shared<CountingGroup>();
  int member = 0;
  {
    Call waited{group, member};
    waited.wait();
    waited.wait();
    CHECK(waited.test());
    Call tested{group, member};
    CHECK_FALSE(tested.test());
    CHECK(group->releases == 1);
    group->complete = true;
    CHECK(tested.test());
    tested.wait();
  }
  CHECK(group->waits == 1);
  CHECK(group->releases == 2);
  CHECK(group->abandoned == 0);
  CHECK(group.use_count() == 1);
}

TEST_CASE("a request that is destroyed before it is complete is abandoned, but not if it was moved")
{
  const auto group = std::make_shared<CountingGroup>();
  int member = 0;
  {
    Call first{group, member};
    Call second{std::move(first)};
    Call third{group, member};
    third = std::move(second);
  }
  CHECK(group->abandoned == 2);
  CHECK(group->releases == 0);
}

}  // namespace cubist::test::comm_request_test
