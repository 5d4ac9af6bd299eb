// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/testing/faulty.hpp"

#include "faults.hpp"
#include "outcome.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::testing_faulty_test
{

// Tests that whatever fault rank 1 of four has, in whatever call, the launch ends with a message,
// or with the right data. tests/job tests processes that die.

using namespace std::chrono_literals;

using Kind = Fault::Kind;
using B = Faulty<TestBackend>;
using World = B::Communicator;

TEST_CASE("a faulty backend has the engine and the launch of the decorated one")
{
  STATIC_REQUIRE(BackendType<B>);
  STATIC_REQUIRE(BackendType<Faulty<Counting<TestBackend>>>);
  STATIC_REQUIRE(std::same_as<B::Engine, TestBackend::Engine>);
}

/// The collectives to test.
static std::vector<CallKind> collectives()
{
  std::vector<CallKind> all;
  for (std::size_t c = 0; c < call_kind_count; ++c)
    if (static_cast<CallKind>(c) != CallKind::expose || exposes<TestBackend>())
      all.push_back(static_cast<CallKind>(c));
  return all;
}

/// Makes a call, and returns a value computed from what this rank received.
static double result_of(World& world, CallKind c)
{
  const auto ranks = static_cast<std::size_t>(world.size());
  std::vector<double> mine(6, 1.0 + world.rank());
  std::vector<double> pieces(6 * ranks, 1.0 + world.rank());
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  switch (c)
  {
  case CallKind::barrier:
    world.barrier();
    break;
  case CallKind::broadcast:
    world.broadcast(mine, 0);
    break;
  case CallKind::reduce:
    world.reduce(std::vector<double>(mine), mine, 0);
    break;
  case CallKind::all_reduce:
    world.all_reduce(mine);
    break;
  case CallKind::all_gather:
    world.all_gather(mine, pieces);
    break;
  case CallKind::reduce_scatter:
    world.reduce_scatter(pieces, mine);
    break;
  case CallKind::all_to_all:
    world.all_to_all(std::vector<double>(pieces), pieces);
    break;
  case CallKind::gather:
    world.gather(mine, pieces, 0);
    break;
  case CallKind::scatter:
    world.scatter(std::vector<double>(pieces), mine, 0);
    break;
  case CallKind::send:
  case CallKind::receive:
  {
    const std::vector<double> sent(mine);
    auto sending = world.async_send(sent, next);
    world.receive(mine, previous);
    sending.wait();
    break;
  }
  case CallKind::expose:
    if constexpr (ExposesMemory<World>)
    {
      auto window = world.expose(mine);
      const double theirs = window[next][5];
      window.close();
      window.wait();
      return theirs;
    }
  }
  return mine[5] + pieces[6 * ranks - 1] + pieces[5];
}

/// Whether there are just four processes, as more would only repeat the tests.
static bool fits_four()
{
#ifdef CUBIST_TEST_MPI
  return process_count() == 4;
#else
  return true;
#endif
}

TEST_CASE("a delay changes only the time")
{
  if (!fits_four()) return;
  for (const auto c : collectives())
  {
    CAPTURE(to_string(c));
    const auto call = [&](World& world) { return result_of(world, c); };
    const auto right = on_ranks<B>(4, call);
    const With delay{{{.kind = Kind::delay, .rank = 1, .collective = c, .delay = 20ms}}};
    const auto begin = std::chrono::steady_clock::now();
    CHECK(on_ranks<B>(4, call) == right);
    CHECK(std::chrono::steady_clock::now() - begin >= 20ms);
  }
}

/// How a launch ends in which each rank makes one call and one barrier.
static Outcome ending(CallKind c, std::chrono::milliseconds limit)
{
  return outcome_of([&] {
    launch<B>({.ranks = 4, .rethrow = true, .time_limit = limit}, [&](World& world) {
      (void)result_of(world, c);
      world.barrier();
    });
  });
}

TEST_CASE("launch throws the error of a rank")
{
  const Watchdog watchdog;
  if (!fits_four()) return;
  for (const auto c : collectives())
  {
    const With error{{{.kind = Kind::error, .rank = 1, .collective = c}}};
    const auto [type, text] = ending(c, 10s);
    CAPTURE(to_string(c), type, text);
    CHECK((type == "CommunicationError" || (on_processes<B> && type == "PeerFailed")));
    CHECK(mentions(text, "rank 1", to_string(c), "failed as call 0 of rank 1"));
  }
}

/// Whether the message names rank 1.
static bool names_rank_1(const std::string& text)
{
  return text.find("rank 1") != std::string::npos || text.find("ranks {1}") != std::string::npos;
}

TEST_CASE("a wrong size is a mismatch")
{
  const Watchdog watchdog;
  if (!fits_four()) return;
  for (const auto c : collectives())
  {
    const With fault{{{.kind = Kind::wrong_size, .rank = 1, .collective = c}}};
    const auto [type, text] = ending(c, 10s);
    CAPTURE(to_string(c), type, text);
    if (c == CallKind::barrier)
    {
      CHECK(type == "completed");
      continue;
    }
    CHECK((type == "CollectiveMismatch" || (on_processes<B> && type == "PeerFailed")));
    CHECK(names_rank_1(text));
  }
}

TEST_CASE("a wrong order is a mismatch, or a wait that cannot complete")
{
  const Watchdog watchdog;
  if (!fits_four()) return;
  for (const auto c : collectives())
  {
    const bool message = c == CallKind::send || c == CallKind::receive;
    const With fault{{{.kind = Kind::wrong_order, .rank = 1, .collective = c}}};
    const auto [type, text] = ending(c, message ? 300ms : 10'000ms);
    CAPTURE(to_string(c), type, text);
    if (message)
      CHECK((type == "DeadlockError" || type == "TimeLimitError" || type == "PeerFailed"));
    else
    {
      CHECK((type == "CollectiveMismatch" || (on_processes<B> && type == "PeerFailed")));
      CHECK(names_rank_1(text));
    }
  }
}

#ifndef CUBIST_TEST_MPI
TEST_CASE("a thread that dies leaves its peers in a deadlock, and the error names it")
{
  const Watchdog watchdog;
  for (const auto c : collectives())
  {
    const With fault{{{.kind = Kind::death, .rank = 1, .collective = c}}};
    const auto [type, text] = ending(c, 10s);
    CAPTURE(to_string(c), type, text);
    // A rank that dies with a pending request abandons it.
    CHECK((type == "DeadlockError" || (c == CallKind::receive && type == "PeerFailed")));
    CHECK(names_rank_1(text));
  }
}
#endif

}  // namespace cubist::test::testing_faulty_test
