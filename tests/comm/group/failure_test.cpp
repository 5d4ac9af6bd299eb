// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/group/failure.hpp"

#include "ranks.hpp"

namespace cubist::test::comm_group_failure_test
{

using detail::GroupFailure;

struct NamedCall
{
  [[nodiscard]] std::string describe() const { return "a call"; }
};

TEST_CASE("the text of a deadlock names the calls of ranks that wait, and ranks that have returned")
{
  const NamedCall call;
  const auto text = detail::deadlock_text(4, [&](int r) { return r % 2 == 0 ? &call : nullptr; });
  CHECK(text ==
        "every live rank waits for another, so none can continue; rank 0 waits in a call; rank 2 "
        "waits in a call; ranks {1, 3} have returned; let all ranks of a communicator make the "
        "same calls in the same order, and match every send with a receive");
}

TEST_CASE("the text of a deadlock names sixteen ranks of each kind")
{
  const NamedCall call;
  const auto waiting = detail::deadlock_text(20, [&](int r) { return r != 1 ? &call : nullptr; });
  CHECK(mentions(waiting, "rank 16 waits in a call; and 3 more ranks wait; ranks {1} have"));
  CHECK_FALSE(mentions(waiting, "rank 17"));
  const auto returned = detail::deadlock_text(20, [&](int r) { return r == 0 ? &call : nullptr; });
  CHECK(mentions(returned, "ranks {1, 2, 3", "15, 16, …} have returned"));
}

TEST_CASE("ranks that have all returned are not a deadlock")
{
  CHECK(detail::deadlock_text(2, [](int) -> const NamedCall* { return nullptr; }).empty());
}

TEST_CASE("each failure has its own error")
{
  detail::raise_failure(GroupFailure::none, "x");
  CHECK_THROWS_AS(detail::raise_failure(GroupFailure::peer_failed, "x"), PeerFailed);
  CHECK_THROWS_AS(detail::raise_failure(GroupFailure::mismatch, "x"), CollectiveMismatch);
  CHECK_THROWS_AS(detail::raise_failure(GroupFailure::deadlock, "x"), DeadlockError);
  CHECK_THROWS_AS(detail::raise_failure(GroupFailure::ended, "x"), CommunicationError);
}

}  // namespace cubist::test::comm_group_failure_test
