// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/comm/threads/scheduler.hpp"

#include "ranks.hpp"
#include "sleep_hook.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_threads_scheduler_test
{

using detail::ThreadScheduler;

struct Flag final : detail::Waiter
{
  bool advance() override
  {
    ++polls;
    return raised;
  }
  [[nodiscard]] std::string describe() const override { return "the " + name + " flag"; }

  std::string name = "red";
  std::atomic<bool> raised{false};
  std::atomic<int> polls{0};
};

static void short_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

TEST_CASE("a rank waits until it is notified and its waiter is complete")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag flag;
  scheduler.add(0, flag);
  std::jthread other{[&] {
    while (flag.polls == 0) short_sleep();
    scheduler.notify(0);  // spurious: rank 0 polls, and waits again
    while (flag.polls == 1) short_sleep();
    flag.raised = true;
    scheduler.notify(0);
    scheduler.finish(1);
  }};
  scheduler.wait(0, flag);
  CHECK(flag.raised);
  CHECK(flag.polls >= 2);
  scheduler.finish(0);
  CHECK_NOTHROW(scheduler.raise());
}

TEST_CASE("no notification is lost, and no rank that was notified counts as parked")
{
  const Watchdog watchdog;
  // Two ranks pass a ball; the receiver may be anywhere between polling and parking. With more
  // pairs than cores, threads are interrupted at any point.
  struct Ball final : detail::Waiter
  {
    Ball(std::atomic<int>& t, int m)
        : turn{t},
          me{m}
    {
    }
    bool advance() override { return turn == me; }
    [[nodiscard]] std::string describe() const override { return "the ball"; }
    std::atomic<int>& turn;
    int me;
  };
  struct Pair
  {
    ThreadScheduler scheduler{2};
    std::atomic<int> turn{0};
    std::atomic<int> passes{0};
    std::string errors[2];
  };
  constexpr int each = repeats(20000, 5000);
  const auto play = [](Pair& pair, int me) {
    pair.errors[me] = message_of<Error>([&] {
      for (int i = 0; i < each; ++i)
      {
        Ball ball{pair.turn, me};
        pair.scheduler.add(me, ball);
        pair.scheduler.wait(me, ball);
        ++pair.passes;
        pair.turn = 1 - me;
        pair.scheduler.notify(1 - me);
      }
    });
    pair.scheduler.finish(me);
  };
  std::array<Pair, 6> pairs;
  {
    std::vector<std::jthread> threads;
    for (auto& pair : pairs)
      for (const int me : {0, 1}) threads.emplace_back(play, std::ref(pair), me);
  }
  for (const auto& pair : pairs)
  {
    CHECK(pair.passes == 2 * each);
    CHECK(pair.errors[0].empty());
    CHECK(pair.errors[1].empty());
  }
}

TEST_CASE("a notification between a rank's last poll and its parking is not lost")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  scheduler.finish(1);  // so it is a deadlock if a rank parks nevertheless
  struct Late final : detail::Waiter
  {
    explicit Late(ThreadScheduler& s)
        : scheduler{s}
    {
    }
    bool advance() override
    {
      if (++polls == 1) scheduler.notify(0);
      return polls == 2;
    }
    [[nodiscard]] std::string describe() const override { return "a late notification"; }
    ThreadScheduler& scheduler;
    int polls = 0;
  };
  Late late{scheduler};
  scheduler.add(0, late);
  CHECK_NOTHROW(scheduler.wait(0, late));
  CHECK(late.polls == 2);
}

TEST_CASE("a notification between a rank's parking and its sleep is not lost")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag flag;
  scheduler.add(0, flag);
  int sleeps = 0;
  const SleepHook hook{[&] {
    if (++sleeps == 2) flag.raised = true;
    scheduler.notify(0);  // as rank 1 would
  }};
  scheduler.wait(0, flag);
  CHECK(sleeps == 2);
  CHECK(flag.polls == 3);
}

TEST_CASE("the end of a program between a rank's parking and its sleep is a deadlock, not a hang")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag flag;
  scheduler.add(0, flag);
  const SleepHook hook{[&] { scheduler.finish(1); }};
  CHECK_THROWS_AS(scheduler.wait(0, flag), DeadlockError);
}

TEST_CASE("test advances all pending calls of its rank")
{
  ThreadScheduler scheduler{1};
  Flag first;
  Flag second;
  scheduler.add(0, first);
  scheduler.add(0, second);
  CHECK_FALSE(scheduler.test(0, second));
  CHECK(first.polls == 1);
  CHECK(second.polls == 1);

  first.raised = true;
  CHECK_FALSE(scheduler.test(0, second));
  CHECK(first.polls == 2);
  CHECK(scheduler.test(0, first));  // complete, and not polled again
  CHECK(first.polls == 2);

  scheduler.remove(0, second);
  CHECK(scheduler.test(0, first));
  CHECK(second.polls == 3);
}

TEST_CASE("a failure ends the wait of a rank, and every later call")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag flag;
  scheduler.add(0, flag);
  std::jthread other{[&] {
    short_sleep();
    scheduler.fail(ThreadScheduler::Failure::peer_failed, "rank 1 failed");
    scheduler.fail(ThreadScheduler::Failure::mismatch, "too late to be reported");
    scheduler.finish(1);
  }};
  CHECK_THROWS_AS(scheduler.wait(0, flag), PeerFailed);
  CHECK_THROWS_WITH(scheduler.test(0, flag), "rank 1 failed");
  CHECK_THROWS_WITH(scheduler.raise(), "rank 1 failed");
}

TEST_CASE("each failure has its error")
{
  const Watchdog watchdog;
  ThreadScheduler mismatch{1};
  mismatch.fail(ThreadScheduler::Failure::mismatch, "x");
  CHECK_THROWS_AS(mismatch.raise(), CollectiveMismatch);
  ThreadScheduler deadlock{1};
  deadlock.fail(ThreadScheduler::Failure::deadlock, "x");
  CHECK_THROWS_AS(deadlock.raise(), DeadlockError);
}

TEST_CASE("ranks that all wait are a deadlock, detected by the last one")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag red;
  Flag green;
  green.name = "green";
  std::string other_text;
  {
    std::jthread other{[&] {
      scheduler.add(1, green);
      other_text = message_of<DeadlockError>([&] { scheduler.wait(1, green); });
      scheduler.finish(1);
    }};
    scheduler.add(0, red);
    const auto text = message_of<DeadlockError>([&] { scheduler.wait(0, red); });
    CHECK(mentions(text, "rank 0 waits in the red flag", "rank 1 waits in the green flag"));
    CHECK_FALSE(mentions(text, "have returned"));
    scheduler.finish(0);
  }
  CHECK(mentions(other_text, "rank 0 waits in the red flag", "rank 1 waits in the green flag"));
}

TEST_CASE("a deadlock is reported once, though ranks finish while others are still being released")
{
  const Watchdog watchdog;
  struct Counted final : detail::Waiter
  {
    explicit Counted(std::atomic<int>& n)
        : described{n}
    {
    }
    bool advance() override { return false; }
    [[nodiscard]] std::string describe() const override
    {
      ++described;
      return "a wait";
    }
    std::atomic<int>& described;
  };
  constexpr int ranks = 12;
  for (int run = 0; run < repeats(150, 50); ++run)
  {
    ThreadScheduler scheduler{ranks};
    std::atomic<int> described{0};
    std::atomic<int> deadlocks{0};
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
          Counted waiter{described};
          scheduler.add(r, waiter);
          if (!message_of<DeadlockError>([&] { scheduler.wait(r, waiter); }).empty()) ++deadlocks;
          scheduler.finish(r);
        });
    }
    REQUIRE(deadlocks == ranks);
    REQUIRE(described == ranks);
  }
}

TEST_CASE("a rank that finishes while the others wait leaves a deadlock")
{
  const Watchdog watchdog;
  ThreadScheduler scheduler{2};
  Flag flag;
  scheduler.add(0, flag);
  std::jthread other{[&] {
    short_sleep();
    scheduler.finish(1);
  }};
  const auto text = message_of<DeadlockError>([&] { scheduler.wait(0, flag); });
  CHECK(mentions(text, "rank 0 waits in the red flag", "ranks {1} have returned"));
}

TEST_CASE("ranks that all finish are not a deadlock")
{
  ThreadScheduler scheduler{3};
  for (int r = 0; r < 3; ++r) scheduler.finish(r);
  CHECK_NOTHROW(scheduler.raise());
}

TEST_CASE("a wait beyond the limit names the awaited ranks, and fails the others")
{
  const Watchdog watchdog;
  struct Late final : detail::Waiter
  {
    bool advance() override { return false; }
    [[nodiscard]] std::string describe() const override { return "a call"; }
    [[nodiscard]] std::vector<int> awaited() const override { return {1, 2, 3}; }
  };
  using namespace std::chrono_literals;
  ThreadScheduler scheduler{4, 400ms};
  scheduler.finish(3);
  std::atomic<bool> over{false};
  std::string waiting;
  std::jthread computes{[&] {
    while (!over) std::this_thread::yield();
    scheduler.finish(2);
  }};
  std::jthread waits{[&] {
    std::this_thread::sleep_for(150ms);  // its limit ends later
    Flag flag;
    scheduler.add(1, flag);
    waiting = message_of<PeerFailed>([&] { scheduler.wait(1, flag); });
    scheduler.finish(1);
  }};
  Late call;
  scheduler.add(0, call);
  const auto begin = std::chrono::steady_clock::now();
  const auto text = message_of<TimeLimitError>([&] { scheduler.wait(0, call); });
  CHECK(std::chrono::steady_clock::now() - begin >= 400ms);
  over = true;
  CHECK(mentions(text, "waited for 400 ms in a call, so the time limit ran out",
                 "; rank 1 waits in the red flag; rank 2 is not waiting; rank 3 has returned",
                 "longer time limit"));
  waits.join();
  CHECK(mentions(waiting, "rank 0 waited for 400 ms in a call"));
}

TEST_CASE("a deadlock that coincides with the end of a limit is reported once")
{
  const Watchdog watchdog;
  // One rank's limit ends as the other rank parks.
  using namespace std::chrono_literals;
  for (int run = 0; run < repeats(100, 20); ++run)
  {
    ThreadScheduler scheduler{2, 2ms};
    std::array<std::string, 2> seen;
    const auto wait = [&](int rank) {
      Flag flag;
      scheduler.add(rank, flag);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::microseconds{1900 + run * 2});
      try
      {
        scheduler.wait(rank, flag);
      }
      catch (const DeadlockError&)
      {
        seen[static_cast<std::size_t>(rank)] = "deadlock";
      }
      catch (const CommunicationError&)
      {
        seen[static_cast<std::size_t>(rank)] = "limit";
      }
      scheduler.remove(rank, flag);
      scheduler.finish(rank);
    };
    std::jthread other{wait, 1};
    wait(0);
    other.join();
    CHECK_FALSE(seen[0].empty());
    CHECK(seen[0] == seen[1]);
  }
}

TEST_CASE("ranks that have not returned some time after a failure are listed")
{
  using namespace std::chrono_literals;
  ThreadScheduler scheduler{3};
  scheduler.finish(1);
  scheduler.fail(ThreadScheduler::Failure::peer_failed, "rank 1 failed");
  const auto [message, late] = scheduler.stragglers(1ms);
  CHECK(message == "rank 1 failed");
  CHECK(late == std::vector<int>{0, 2});
  scheduler.finish(0);
  scheduler.finish(2);
  CHECK(scheduler.stragglers(1min).second.empty());
}

}  // namespace cubist::test::comm_threads_scheduler_test
