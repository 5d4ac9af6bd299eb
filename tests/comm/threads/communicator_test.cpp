// SPDX-License-Identifier: BSD-3-Clause
#include <random>

#include <sched.h>

#include "cubist/backend/threads.hpp"
#include "cubist/comm/threads/communicator.hpp"

#include "outcome.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_threads_communicator_test
{

// Tests that failures of threads reach all ranks, with a message that says what happened.
// comm/communicator_test.cpp tests for every communicator that the data is right.

// --- a rank throws

using World = ThreadsCommunicator;

struct NamedCall
{
  std::string text;  // as messages print it
  std::function<void(World&)> run;
};

/// Every collective, on pieces of 4 doubles; `root` is the root of those that have one.
static std::vector<NamedCall> every_call(int root)
{
  using Doubles = std::vector<double>;
  const auto pieces = [](World& w) { return Doubles(4 * static_cast<std::size_t>(w.size())); };
  return {
      {"barrier", [](World& w) { w.barrier(); }},
      {"broadcast of 4 double with root", [=](World& w) { w.broadcast(Doubles(4), root); }},
      {"reduce of 4 double", [=](World& w) { w.reduce(Doubles(4), Doubles(4), root); }},
      {"all_reduce of 4 double", [](World& w) { w.all_reduce(Doubles(4)); }},
      {"all_gather of 4 double", [=](World& w) { w.all_gather(Doubles(4), pieces(w)); }},
      {"reduce_scatter of 4 double", [=](World& w) { w.reduce_scatter(pieces(w), Doubles(4)); }},
      {"all_to_all of 4 double", [=](World& w) { w.all_to_all(pieces(w), pieces(w)); }},
      {"gather of 4 double", [=](World& w) { w.gather(Doubles(4), pieces(w), root); }},
      {"scatter of 4 double", [=](World& w) { w.scatter(pieces(w), Doubles(4), root); }},
  };
}

TEST_CASE("a rank that throws instead of calling releases its peers")
{
  const Watchdog watchdog;
  constexpr int ranks = 4;
  constexpr int thrower = 2;
  for (const auto& call : every_call(thrower))
    for (const bool late : {false, true})
    {
      CAPTURE(call.text, late);
      std::vector<Outcome> seen(ranks);
      std::optional<int> rank;
      const auto text = message_of<DataError>([&] {
        try
        {
          launch<Threads>({.ranks = ranks}, [&](World& world) {
            if (world.rank() == thrower)
            {
              if (late) std::this_thread::sleep_for(std::chrono::milliseconds(2));
              throw DataError{"the file ended"};
            }
            seen[static_cast<std::size_t>(world.rank())] = outcome_of([&] {
              call.run(world);
              world.barrier();  // a rank may complete its part of a gather or a reduction
            });
          });
        }
        catch (const DataError& e)
        {
          rank = e.rank();
          throw;
        }
      });
      CHECK(text == "rank 2: the file ended");
      CHECK(rank == thrower);
      for (const int r : {0, 1, 3})
      {
        CHECK(seen[static_cast<std::size_t>(r)].type == "PeerFailed");
        CHECK(mentions(seen[static_cast<std::size_t>(r)].text, "rank 2 failed (the file ended)",
                       "correct that rank's error"));
      }
    }
}

TEST_CASE("a rank that throws releases ranks that wait for a message or in another group")
{
  const Watchdog watchdog;
  std::vector<Outcome> seen(4);
  const auto text = message_of<RankFailed>([&] {
    launch<Threads>({.ranks = 4}, [&](World& world) {
      seen[static_cast<std::size_t>(world.rank())] = outcome_of([&] {
        auto half = world.split(world.rank() / 2, 0);
        if (world.rank() == 3) throw std::out_of_range{"got 3 rows"};
        std::vector<float> x(3);
        if (world.rank() == 0) half.receive(x, 1);
        if (world.rank() == 1) world.send(x, 2);
        if (world.rank() == 2) half.barrier();
      });
    });
  });
  CHECK(text == "rank 3: got 3 rows");
  for (const int r : {0, 1, 2}) CHECK(seen[static_cast<std::size_t>(r)].type == "PeerFailed");
}

TEST_CASE("calls after a failure fail at once")
{
  std::vector<Outcome> seen(2);
  CHECK_THROWS_AS(launch<Threads>({.ranks = 2},
                                  [&](World& world) {
                                    if (world.rank() == 1) throw DataError{"x"};
                                    (void)outcome_of([&] { world.barrier(); });
                                    seen[0] = outcome_of([&] { (void)world.async_barrier(); });
                                    seen[1] = outcome_of([&] { (void)world.split(0, 0); });
                                  }),
                  DataError);
  CHECK(seen[0].type == "PeerFailed");
  CHECK(seen[1].type == "PeerFailed");
}

static void sleep_up_to(std::mt19937& random, int most_microseconds)
{
  std::this_thread::sleep_for(
      std::chrono::microseconds(random() % static_cast<unsigned>(most_microseconds)));
}

TEST_CASE("of an error and its consequences, launch rethrows the error")
{
  const Watchdog watchdog;
  // Peers throw PeerFailed in any order of the ranks, and launch does not rethrow it.
  for (int run = 0; run < repeats(100, 50); ++run)
  {
    const auto text = message_of<ArgumentError>([&] {
      launch<Threads>({.ranks = 3}, [&](World& world) {
        std::mt19937 random{static_cast<unsigned>(run * 3 + world.rank())};
        sleep_up_to(random, 100);
        if (world.rank() == 1)
        {
          std::vector<double> x(10);
          auto dropped = world.async_all_reduce(x);
          sleep_up_to(random, 100);
          throw ArgumentError{"the cause"};
        }
        std::vector<double> x(10);
        world.all_reduce(x);
        world.barrier();
      });
    });
    REQUIRE(text == "rank 1: the cause");
  }
}

// --- a rank drops a request

TEST_CASE("a dropped request releases the peers that have called and those that call later")
{
  std::atomic<bool> dropped{false};
  const bool before = GENERATE(true, false);
  CAPTURE(before);
  const auto seen = on_ranks<Threads>(3, [&](World& world) {
    std::vector<double> x(1000, 1.0);
    if (world.rank() == 1)
    {
      if (before) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      {
        auto request = world.async_all_reduce(x);
      }
      dropped = true;
      return Outcome{"dropped", ""};
    }
    while (!before && !dropped) std::this_thread::yield();
    return outcome_of([&] { world.all_reduce(x); });
  });
  CHECK(seen[1].type == "dropped");
  for (const std::size_t r : {0U, 2U})
  {
    CHECK(seen[r].type == "PeerFailed");
    CHECK(mentions(seen[r].text, "rank 1 left all_reduce of 1000 double by sum on ranks {0, 1, 2}",
                   "look for the error of that rank"));
  }
}

TEST_CASE("launch rethrows PeerFailed when a request was dropped and nothing else went wrong")
{
  const Watchdog watchdog;
  const auto text = message_of<PeerFailed>([] {
    launch<Threads>({.ranks = 2}, [](World& world) {
      std::vector<double> x(10);
      if (world.rank() == 1)
        (void)world.async_broadcast(x, 0);
      else
        world.broadcast(x, 0);
    });
  });
  CHECK(mentions(text, "rank 0: rank 1 left broadcast of 10 double with root 0"));
}

/// Runs `body` on `ranks` threads, and returns how each ended. Errors do not reach `launch`.
template <class F>
std::vector<Outcome> outcomes(int ranks, F body)
{
  const Watchdog watchdog;
  return on_ranks<Threads>(ranks, [&](World& world) { return outcome_of([&] { body(world); }); });
}

TEST_CASE("a dropped message releases the other end")
{
  // The receiver waits until the sender has dropped its message, as it could receive it before.
  std::atomic<bool> dropped{false};
  const bool sender_drops = GENERATE(true, false);
  CAPTURE(sender_drops);
  const auto seen = outcomes(2, [&](World& world) {
    std::vector<int> x(100);
    const bool sends = world.rank() == 0;
    if (sends == sender_drops)
    {
      if (sends)
        (void)world.async_send(x, 1);
      else
        (void)world.async_receive(x, 0);
      dropped = true;
    }
    else if (sends)
      world.send(x, 1);
    else
    {
      while (!dropped) std::this_thread::yield();
      world.receive(x, 0);
    }
  });
  const auto& left = seen[sender_drops ? 0 : 1];
  const auto& other = seen[sender_drops ? 1 : 0];
  CHECK(left.type == "completed");
  CHECK(other.type == "PeerFailed");
}

TEST_CASE("a message to oneself completes, whichever end is waited for first")
{
  const bool sender_first = GENERATE(true, false);
  CAPTURE(sender_first);
  const auto seen = outcomes(2, [&](World& world) {
    const std::vector<int> x(100, world.rank());
    std::vector<int> y(100, -1);
    auto sent = world.async_send(x, world.rank());
    auto received = world.async_receive(y, world.rank());
    sender_first ? sent.wait() : received.wait();
    sender_first ? received.wait() : sent.wait();
    if (x != y) throw DataError{"received another message"};
  });
  for (const auto& s : seen) CHECK(s.type == "completed");
}

TEST_CASE("buffers are not used after a rank has left, whenever it leaves")
{
  const Watchdog watchdog;
  // Rank 1 frees its large buffers at any time while its peers copy from and to them, and
  // sanitizers check that no rank accesses them afterwards. A peer throws PeerFailed or gets all
  // data right.
  constexpr std::size_t n = 20000;
  constexpr int ranks = 3;
  const int kind = GENERATE(0, 1, 2, 3, 4);
  CAPTURE(kind);
  int released = 0;
  for (int run = 0; run < repeats(30, 10); ++run)
  {
    std::vector<Outcome> seen(ranks);
    std::vector<char> right(ranks, 1);
    const auto text = message_of<DataError>([&] {
      launch<Threads>({.ranks = ranks}, [&](World& world) {
        const auto me = static_cast<std::size_t>(world.rank());
        const auto body = [&] {
          std::vector<float> in(ranks * n, static_cast<float>(me + 1));
          std::vector<float> out(ranks * n);
          const auto first = std::span{in}.first(n);
          const auto first_out = std::span{out}.first(n);
          auto request = kind == 0   ? world.async_all_reduce(in)
                         : kind == 1 ? world.async_all_gather(first, out)
                         : kind == 2 ? world.async_reduce_scatter(in, first_out)
                         : kind == 3 ? world.async_all_to_all(in, out)
                                     : world.async_broadcast(in, out, 1);
          if (me == 1)
          {
            std::mt19937 random{static_cast<unsigned>(run)};
            const auto end =
                std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 200);
            while (std::chrono::steady_clock::now() < end && run % 2 == 0) (void)request.test();
            throw DataError{"gave up"};
          }
          request.wait();
          const auto is = [](std::span<const float> x, float v) {
            return std::ranges::all_of(x, [&](float y) { return y == v; });
          };
          const bool all = kind == 0   ? is(in, 6)
                           : kind == 2 ? is(first_out, 6)
                           : kind == 4 ? is(out, 2)
                                       : is(first_out, 1) && is(std::span{out}.last(n), 3);
          right[me] = all ? 1 : 0;
        };
        if (me == 1)
          body();
        else
          seen[me] = outcome_of(body);
      });
    });
    REQUIRE(text == "rank 1: gave up");
    for (const std::size_t r : {0U, 2U})
    {
      REQUIRE((seen[r].type == "PeerFailed" || seen[r].type == "completed"));
      REQUIRE(right[r] == 1);
      released += seen[r].type == "PeerFailed" ? 1 : 0;
    }
  }
  // In every other run, rank 1 gives up before it advances, so only a broadcast can complete.
  if (kind != 4) CHECK(released >= repeats(30, 10));
}

TEST_CASE("requests can be moved and swapped")
{
  const auto seen = on_ranks<Threads>(2, [](World& world) {
    std::vector<int> a{1};
    std::vector<int> b{1};
    auto first = world.async_all_reduce(a);
    auto second = world.async_all_reduce(b);
    auto moved = std::move(first);
    std::swap(moved, second);
    moved.wait();
    second.wait();
    return a[0] + 10 * b[0];
  });
  CHECK(seen == std::vector<int>{22, 22});
}

// --- ranks call different collectives

TEST_CASE("different calls are a mismatch, and the error on both ranks names both calls")
{
  using V = std::vector<double>;
  using F = std::vector<float>;
  struct Pair
  {
    NamedCall zero;
    NamedCall one;
  };
  const NamedCall sum{"all_reduce of 4 double by sum", [](World& w) { w.all_reduce(V(4)); }};
  const std::vector<Pair> pairs{
      {sum, {"barrier", [](World& w) { w.barrier(); }}},
      {sum, {"all_gather of 4 double", [](World& w) { w.all_gather(V(4), V(8)); }}},
      {sum, {"all_reduce of 5 double by sum", [](World& w) { w.all_reduce(V(5)); }}},
      {sum, {"all_reduce of 0 double by sum", [](World& w) { w.all_reduce(V(0)); }}},
      {sum, {"all_reduce of 4 float by sum", [](World& w) { w.all_reduce(F(4)); }}},
      {sum,
       {"all_reduce of 4 int64 by sum",
        [](World& w) { w.all_reduce(std::vector<std::int64_t>(4)); }}},
      {sum, {"all_reduce of 4 double by max", [](World& w) { w.all_reduce(V(4), ReduceOp::max); }}},
      {{"reduce of 4 double by min with root 0",
        [](World& w) { w.reduce(V(4), V(4), 0, ReduceOp::min); }},
       {"reduce of 4 double by min with root 1",
        [](World& w) { w.reduce(V(4), V(4), 1, ReduceOp::min); }}},
      {{"broadcast of 3 float with root 0", [](World& w) { w.broadcast(F(3), 0); }},
       {"broadcast of 3 float with root 1", [](World& w) { w.broadcast(F(3), 1); }}},
      {{"broadcast of 3 float with root 0", [](World& w) { w.broadcast(F(3), 0); }},
       {"broadcast of 2 float with root 0", [](World& w) { w.broadcast(F(2), 0); }}},
      {{"gather of 3 float with root 1", [](World& w) { w.gather(F(3), F(6), 1); }},
       {"scatter of 3 float with root 1", [](World& w) { w.scatter(F(6), F(3), 1); }}},
      {{"reduce_scatter of 3 float by sum", [](World& w) { w.reduce_scatter(F(6), F(3)); }},
       {"all_to_all of 3 float", [](World& w) { w.all_to_all(F(6), F(6)); }}},
  };
  for (const auto& pair : pairs)
    for (const int late : {0, 1})
    {
      CAPTURE(pair.zero.text, pair.one.text, late);
      const auto seen = outcomes(2, [&](World& world) {
        if (world.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        (world.rank() == 0 ? pair.zero : pair.one).run(world);
        world.barrier();
      });
      for (const auto& s : seen)
      {
        CHECK(s.type == "CollectiveMismatch");
        CHECK(mentions(s.text, "rank 0 called " + pair.zero.text, "rank 1 called " + pair.one.text,
                       "on ranks {0, 1}", "same calls in the same order"));
      }
    }
}

TEST_CASE("a mismatch in a group names the ranks of the launch, and reaches all of them")
{
  const auto seen = outcomes(6, [](World& world) {
    auto odd = world.split(world.rank() % 2, -world.rank());  // {5, 3, 1} and {4, 2, 0}
    std::vector<float> x(world.rank() == 3 ? 2 : 4);
    if (world.rank() % 2 == 1) odd.all_reduce(x);
    world.barrier();
  });
  for (const auto& s : seen)
  {
    CHECK(s.type == "CollectiveMismatch");
    CHECK(mentions(s.text, "rank 3 called all_reduce of 2 float", "called all_reduce of 4 float",
                   "on ranks {5, 3, 1}"));
  }
}

TEST_CASE("launch rethrows a mismatch with a rank")
{
  const Watchdog watchdog;
  try
  {
    launch<Threads>({.ranks = 2}, [](World& world) {
      if (world.rank() == 0)
        world.barrier();
      else
        world.all_reduce(std::vector<int>(1));
    });
    FAIL("nothing was thrown");
  }
  catch (const CollectiveMismatch& e)
  {
    CHECK(e.rank().has_value());
    CHECK(mentions(e.what(), "called barrier", "called all_reduce of 1 int32"));
  }
}

TEST_CASE("a message that does not fit its receiver is a mismatch")
{
  const bool other_type = GENERATE(false, true);
  CAPTURE(other_type);
  const auto seen = outcomes(3, [&](World& world) {
    if (world.rank() == 0) world.send(std::vector<float>(4), 2);
    if (world.rank() == 2 && other_type) world.receive(std::vector<int>(4), 0);
    if (world.rank() == 2 && !other_type) world.receive(std::vector<float>(5), 0);
    world.barrier();
  });
  for (const auto& s : seen)
  {
    CHECK(s.type == "CollectiveMismatch");
    CHECK(mentions(s.text, "rank 0 called send of 4 float", "from rank 0 to rank 2",
                   other_type ? "rank 2 called receive of 4 int32"
                              : "rank 2 called receive of 5 float"));
  }
}

// --- deadlocks

TEST_CASE("crossed receives are a deadlock, and the error says in which call each rank waits")
{
  const auto seen = outcomes(2, [](World& world) {
    std::vector<double> x(3);
    world.receive(x, 1 - world.rank());
    world.send(x, 1 - world.rank());
  });
  for (const auto& s : seen)
  {
    CHECK(s.type == "DeadlockError");
    CHECK(mentions(
        s.text, "rank 0 waits in receive of 3 double from rank 1 to rank 0, which ranks {1} have",
        "rank 1 waits in receive of 3 double from rank 0 to rank 1, which ranks {0} have",
        "match every send with a receive"));
  }
}

TEST_CASE("crossed blocking sends are a deadlock")
{
  const auto seen = outcomes(2, [](World& world) {
    std::vector<double> x(3);
    world.send(x, 1 - world.rank());
    world.receive(x, 1 - world.rank());
  });
  for (const auto& s : seen)
  {
    CHECK(s.type == "DeadlockError");
    CHECK(mentions(s.text, "rank 0 waits in send of 3 double from rank 0 to rank 1",
                   "rank 1 waits in send of 3 double from rank 1 to rank 0"));
  }
}

TEST_CASE("a single rank that waits for itself is a deadlock")
{
  const auto seen = outcomes(1, [](World& world) { world.receive(std::vector<int>(1), 0); });
  CHECK(seen[0].type == "DeadlockError");
  CHECK(mentions(seen[0].text, "rank 0 waits in receive of 1 int32 from rank 0 to rank 0"));
}

TEST_CASE("a rank that returns early leaves the others in a deadlock")
{
  const bool late = GENERATE(false, true);
  CAPTURE(late);
  const auto seen = outcomes(3, [&](World& world) {
    if (world.rank() != 1) return world.barrier();
    if (late) std::this_thread::sleep_for(std::chrono::milliseconds(3));
  });
  CHECK(seen[1].type == "completed");
  for (const std::size_t r : {0U, 2U})
  {
    CHECK(seen[r].type == "DeadlockError");
    CHECK(mentions(seen[r].text,
                   "rank 0 waits in barrier on ranks {0, 1, 2}, which ranks {1} have not called",
                   "rank 2 waits in barrier", "ranks {1} have returned"));
  }
}

TEST_CASE("groups called in another order are a deadlock")
{
  const auto seen = outcomes(2, [](World& world) {
    auto a = world.split(0, 0);
    auto b = world.split(0, 1);
    std::vector<int> x(world.rank() == 0 ? 1 : 2);
    if (world.rank() == 0)
      a.all_reduce(x), b.all_reduce(x);
    else
      b.all_reduce(x), a.all_reduce(x);
  });
  for (const auto& s : seen)
  {
    CHECK(s.type == "DeadlockError");
    CHECK(mentions(s.text, "rank 0 waits in all_reduce of 1 int32 by sum on ranks {0, 1}",
                   "rank 1 waits in all_reduce of 2 int32 by sum on ranks {0, 1}",
                   "let all ranks of a communicator make the same calls in the same order"));
  }
}

TEST_CASE("a deadlock among many ranks names some of them and counts the rest")
{
  const auto seen = outcomes(21, [](World& world) {
    if (world.rank() != 20) world.barrier();
  });
  CHECK(seen[0].type == "DeadlockError");
  CHECK(mentions(seen[0].text, "rank 0 waits in barrier", "rank 15 waits in barrier",
                 "and 4 more ranks wait", "ranks {20} have returned"));
  CHECK_FALSE(mentions(seen[0].text, "rank 16 waits"));
}

TEST_CASE("launch rethrows a deadlock with a rank")
{
  const Watchdog watchdog;
  try
  {
    launch<Threads>({.ranks = 2}, [](World& world) {
      if (world.rank() == 1) world.barrier();
    });
    FAIL("nothing was thrown");
  }
  catch (const DeadlockError& e)
  {
    CHECK(e.rank() == 1);
    CHECK(mentions(e.what(), "rank 1: every live rank waits for another"));
  }
}

TEST_CASE("a deadlock is detected in whatever order the ranks wait")
{
  for (int run = 0; run < repeats(300, 100); ++run)
  {
    const auto seen = outcomes(4, [&](World& world) {
      for (int i = 0; i < run % 5; ++i) world.barrier();
      if (world.rank() != run % 4) world.receive(std::vector<int>(1), run % 4);
    });
    for (int r = 0; r < 4; ++r)
      REQUIRE(seen[static_cast<std::size_t>(r)].type ==
              (r == run % 4 ? "completed" : "DeadlockError"));
  }
}

// --- time limits

/// Runs `body` on ranks 0, 1 and 3 of 4, and returns how it ends there. Rank 2 does `instead`, and
/// then makes no call until the others have ended.
template <class F, class G>
std::vector<Outcome> without_rank_2(F body, G instead)
{
  const Watchdog watchdog;
  std::vector<Outcome> seen(4);
  std::atomic<int> ended{0};
  launch<Threads>({.ranks = 4, .time_limit = std::chrono::milliseconds{100}}, [&](World& world) {
    world.barrier();
    if (world.rank() == 2)
    {
      [[maybe_unused]] auto pending = instead(world);
      while (ended < 3) std::this_thread::sleep_for(std::chrono::milliseconds{1});
      return;
    }
    seen[static_cast<std::size_t>(world.rank())] = outcome_of([&] { body(world); });
    ++ended;
  });
  return seen;
}

/// Checks that one rank has waited beyond the limit, and that the others fail with it.
static void check_late(const std::vector<Outcome>& seen, const std::string& call,
                       const std::string& late)
{
  int limits = 0;
  for (const std::size_t r : {0U, 1U, 3U})
  {
    CAPTURE(r, seen[r].type, seen[r].text);
    limits += seen[r].type == "TimeLimitError";
    CHECK((seen[r].type == "TimeLimitError" || seen[r].type == "PeerFailed"));
    CHECK(mentions(seen[r].text, "waited for 100 ms in " + call, late, "rank 2 is not waiting"));
  }
  CHECK(limits == 1);
}

TEST_CASE("a wait for a rank that makes no call ends at the limit, and names the rank")
{
  const auto absent = [](World&) { return 0; };
  const auto calls = every_call(2);
  for (const std::size_t i : {0U, 1U, 3U, 7U})
    check_late(without_rank_2(calls[i].run, absent), calls[i].text,
               "which ranks {2} have not called");

  const std::vector<int> x(3);
  check_late(without_rank_2([](World& w) { w.receive(std::vector<int>(3), 2); }, absent),
             "receive of 3 int32 from rank 2", "which ranks {2} have not called");
  check_late(without_rank_2([&](World& world) { (void)world.expose(x)[2]; }, absent),
             "expose of 3 int32", "which ranks {2} have not called");
}

TEST_CASE("a wait for a rank that has called but does not advance ends at the limit")
{
  constexpr std::size_t n = 1000;  // more than the call copies
  std::vector<double> mine(n);
  check_late(without_rank_2([](World& world) { world.all_reduce(std::vector<double>(n)); },
                            [&](World& world) { return world.async_all_reduce(mine); }),
             "all_reduce of 1000 double", "which ranks {2} have not completed");
}

TEST_CASE("the limit is for each wait, not for all of them")
{
  const Watchdog watchdog;
  using namespace std::chrono_literals;
  CHECK_NOTHROW(launch<Threads>({.ranks = 2, .time_limit = 600ms}, [](World& world) {
    for (int i = 0; i < 4; ++i)
    {
      if (world.rank() == 0) std::this_thread::sleep_for(170ms);
      world.barrier();
    }
  }));
}

// --- programs without errors

TEST_CASE("a program without deadlocks is reported none")
{
  const int ranks = GENERATE(2, 3, 8);
  const auto wrong = on_ranks<Threads>(ranks, [&](World& world) {
    std::mt19937 common{17};  // the same choices on all ranks
    std::mt19937 own{static_cast<unsigned>(world.rank())};
    int errors = 0;
    for (int round = 0; round < repeats(100, 40); ++round)
    {
      std::vector<int> colours(static_cast<std::size_t>(ranks));
      for (int& c : colours) c = static_cast<int>(common() % 3);
      const int colour = colours[static_cast<std::size_t>(world.rank())];
      auto group = world.split(colour, static_cast<int>(own() % 5));
      int sum = 0;
      for (int r = 0; r < ranks; ++r)
        if (colours[static_cast<std::size_t>(r)] == colour) sum += r;
      for (int call = 0; call < 8; ++call)
      {
        if (own() % 16 == 0) sleep_up_to(own, 200);
        std::vector<int> x(1 + static_cast<std::size_t>(call), world.rank());
        std::vector<int> y(x);
        auto wide = world.async_all_reduce(y);
        group.all_reduce(x);
        if (x.back() != sum) ++errors;
        const int next = (group.rank() + 1) % group.size();
        const int previous = (group.rank() + group.size() - 1) % group.size();
        auto sent = group.async_send(x, next);
        std::vector<int> z(x.size());
        group.receive(z, previous);
        group.barrier();
        sent.wait();
        wide.wait();
        if (z != x || y.front() != ranks * (ranks - 1) / 2) ++errors;
      }
    }
    return errors;
  });
  for (const int errors : wrong) CHECK(errors == 0);
}

TEST_CASE("hundreds of ranks")
{
  constexpr int ranks = sanitized ? 128 : 512;
  constexpr int groups = 16;
  require_clear(on_ranks<Threads>(ranks, [](World& world) {
    Findings found;
    world.barrier();
    std::vector<int> x{1, world.rank()};
    world.all_reduce(x);
    found.check(x == std::vector<int>{ranks, ranks * (ranks - 1) / 2}, "all_reduce on all ranks");

    auto group = world.split(world.rank() % groups, -world.rank());
    found.check(group.size() == ranks / groups, "size of a group");
    found.check(group.rank() == group.size() - 1 - world.rank() / groups, "rank in a group");
    std::vector<int> y{world.rank()};
    group.all_reduce(y, ReduceOp::min);
    found.check(y[0] == world.rank() % groups, "all_reduce in a group");

    std::vector<int> all(ranks);
    world.all_gather(std::array{world.rank()}, all);
    std::vector<int> expected(ranks);
    std::iota(expected.begin(), expected.end(), 0);
    found.check(all == expected, "all_gather on all ranks");
    return found;
  }));
}

TEST_CASE("hundreds of ranks are released when one throws")
{
  const Watchdog watchdog;
  std::atomic<int> released{0};
  CHECK_THROWS_AS(launch<Threads>({.ranks = 200},
                                  [&](World& world) {
                                    if (world.rank() == 123) throw DataError{"x"};
                                    if (outcome_of([&] { world.barrier(); }).type == "PeerFailed")
                                      ++released;
                                  }),
                  DataError);
  CHECK(released == 199);
}

// --- ranks spread over the cores

TEST_CASE("ranks of a launch, and of its parts, spread over the cores without waiting")
{
  const auto stays = on_ranks<Threads>(4, [](World& world) {
    cpu_set_t before, after;
    CPU_ZERO(&before);
    CPU_ZERO(&after);
    sched_getaffinity(0, sizeof before, &before);
    auto half = world.split(world.rank() % 2, world.rank());
    if (world.rank() != 3)
      for (int i = 0; i < 20; ++i)
      {
        world.spread_over_cores(4);
        half.spread_over_cores(2);
        std::this_thread::sleep_for(std::chrono::microseconds{500});
      }
    world.barrier();
    sched_getaffinity(0, sizeof after, &after);
    return CPU_EQUAL(&before, &after) != 0;
  });
  CHECK(stays == std::vector<bool>(4, true));
}

}  // namespace cubist::test::comm_threads_communicator_test
