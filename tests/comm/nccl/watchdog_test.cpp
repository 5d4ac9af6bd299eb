// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/nccl/watchdog.hpp"

#include "fake.hpp"
#include "ranks.hpp"
#include "single_rank.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_nccl_watchdog_test
{

using cubist::detail::NcclWatchdog;

TEST_CASE("NcclWatchdog: an error aborts all communicators, and later calls throw with its message")
{
  NcclWatchdog watchdog{{}};
  for (int i = 0; i < 2; ++i) create_alone(watchdog.add(nullptr).handle());
  CHECK(watchdog.abort_on_error([] { return 7; }) == 7);
  const int aborts = fake::aborts();
  CHECK_THROWS_AS(watchdog.abort_on_error([] { throw std::runtime_error{"the first error"}; }),
                  std::runtime_error);
  CHECK(fake::aborts() == aborts + 2);
  CHECK(watchdog.is_aborted());
  CHECK(mentions(message_of<CommunicationError>([&] { watchdog.abort_on_error([] {}); }),
                 "were aborted (the first error)", "none of them can carry data"));
  watchdog.abort("again");
  CHECK(fake::aborts() == aborts + 2);
}

TEST_CASE("NcclWatchdog: a wait ends at the time limit, or when poll_failure throws")
{
  const Watchdog watchdog;
  using namespace std::chrono_literals;
  const auto never = [] { return false; };
  NcclWatchdog limited{{.stream = nullptr, .time_limit = 20ms}};
  const auto text =
      message_of<TimeLimitError>([&] { limited.wait_until(never, [] { return "a handshake"; }); });
  CHECK(mentions(text, "waited 20 ms", "in a handshake", "give a longer time limit"));

  for (const auto bad : {0ms, -1ms})
    CHECK(mentions(message_of<ArgumentError>(
                       [&] { const NcclWatchdog none{{.stream = nullptr, .time_limit = bad}}; }),
                   "got a time limit of", "give a longer one"));

  int polls = 0;
  const auto poll_failure = [&] {
    if (++polls == 3) throw PeerFailed{"rank 5 failed"};
  };
  NcclWatchdog failing{{.stream = nullptr, .time_limit = {}, .poll_failure = poll_failure}};
  CHECK_THROWS_AS(failing.wait_until(never), PeerFailed);
  CHECK(polls == 3);
  int calls = 0;
  NcclWatchdog unlimited{{}};
  unlimited.wait_until([&] { return ++calls == 100; });
  CHECK(calls == 100);
}

}  // namespace cubist::test::comm_nccl_watchdog_test
