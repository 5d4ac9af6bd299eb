// SPDX-License-Identifier: BSD-3-Clause
#include <chrono>
#include <stdexcept>

#include "cubist/comm/nccl/watchdog.hpp"

#include "catch.hpp"
#include "fake.hpp"
#include "ranks.hpp"

using namespace cubist;
using namespace cubist::test;
using cubist::detail::NcclWatchdog;

TEST_CASE("an error aborts all communicators, and is told to whoever comes later")
{
  NcclWatchdog watch{{}};
  ncclUniqueId id{};
  auto config = cubist::detail::NcclHandle::config();
  for (int i = 0; i < 2; ++i)
  {
    ncclGetUniqueId(&id);
    ncclCommInitRankConfig(watch.add(nullptr).handle().room(), 1, id, 0, &config);
  }
  CHECK(watch.attempt([] { return 7; }) == 7);
  const int aborts = fake::aborts();
  CHECK_THROWS_AS(watch.attempt([] { throw std::runtime_error{"out of paper"}; }),
                  std::runtime_error);
  CHECK(fake::aborts() == aborts + 2);
  CHECK(watch.failed());
  CHECK(mentions(message_of<CommunicationError>([&] { watch.attempt([] {}); }),
                 "were aborted (out of paper)", "carries data any more"));
  watch.abort("again");
  CHECK(fake::aborts() == aborts + 2);
}

TEST_CASE("waits end at the time limit, or when the program knows of a failure")
{
  using namespace std::chrono_literals;
  const auto never = [] { return false; };
  NcclWatchdog limited{{.stream = nullptr, .time_limit = 20ms}};
  const auto text =
      message_of<TimeLimitError>([&] { limited.until(never, [] { return "a handshake"; }); });
  CHECK(mentions(text, "waited 20 ms", "in a handshake", "give a longer time limit"));

  for (const auto bad : {0ms, -1ms})
    CHECK(mentions(message_of<ArgumentError>(
                       [&] { const NcclWatchdog none{{.stream = nullptr, .time_limit = bad}}; }),
                   "got a time limit of", "give a longer one"));

  int looks = 0;
  const auto look = [&] {
    if (++looks == 3) throw PeerFailed{"rank 5 failed"};
  };
  NcclWatchdog told{{.stream = nullptr, .time_limit = {}, .look = look}};
  CHECK_THROWS_AS(told.until(never), PeerFailed);
  CHECK(looks == 3);
  int asked = 0;
  NcclWatchdog calm{{}};
  calm.until([&] { return ++asked == 100; });
  CHECK(asked == 100);
}
