// SPDX-License-Identifier: BSD-3-Clause
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "cubist/comm/threads/scheduler.hpp"

#include "catch.hpp"
#include "ranks.hpp"
#include "sanitized.hpp"

using namespace cubist;
using namespace cubist::test;
using detail::ThreadScheduler;

namespace
{

struct Flag final : detail::Waiter
{
  bool advance() override
  {
    ++looks;
    return raised;
  }
  [[nodiscard]] std::string describe() const override { return "the " + name + " flag"; }

  std::string name = "red";
  std::atomic<bool> raised{false};
  int looks = 0;
};

void short_sleep() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

}  // namespace

TEST_CASE("a rank waits until it is notified that its waiter can complete")
{
  ThreadScheduler world{2};
  Flag flag;
  world.add(0, flag);
  std::jthread other{[&] {
    short_sleep();
    world.notify(0);  // for nothing: rank 0 looks, and waits on
    short_sleep();
    flag.raised = true;
    world.notify(0);
    world.finish(1);
  }};
  world.wait(0, flag);
  CHECK(flag.raised);
  CHECK(flag.looks >= 2);
  world.finish(0);
  CHECK_NOTHROW(world.raise());
}

TEST_CASE("no notification is lost, and no rank that is about to wake is taken for parked")
{
  // Two ranks pass a ball, and each may be anywhere between looking and parking when it comes; more
  // pairs than cores see to it that ranks are interrupted at any point.
  struct Ball final : detail::Waiter
  {
    Ball(std::atomic<int>& t, int m) : turn{t}, me{m} {}
    bool advance() override { return turn == me; }
    [[nodiscard]] std::string describe() const override { return "the ball"; }
    std::atomic<int>& turn;
    int me;
  };
  struct Pair
  {
    ThreadScheduler world{2};
    std::atomic<int> turn{0};
    std::atomic<int> passes{0};
    std::string errors[2];
  };
  constexpr int each = repeats(100000, 5000);
  const auto play = [](Pair& pair, int me) {
    pair.errors[me] = message_of<Error>([&] {
      for (int i = 0; i < each; ++i)
      {
        Ball ball{pair.turn, me};
        pair.world.add(me, ball);
        pair.world.wait(me, ball);
        ++pair.passes;
        pair.turn = 1 - me;
        pair.world.notify(1 - me);
      }
    });
    pair.world.finish(me);
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

TEST_CASE("test helps everything on that its rank has under way")
{
  ThreadScheduler world{1};
  Flag first;
  Flag second;
  world.add(0, first);
  world.add(0, second);
  CHECK_FALSE(world.test(0, second));
  CHECK(first.looks == 1);
  CHECK(second.looks == 1);

  first.raised = true;
  CHECK_FALSE(world.test(0, second));
  CHECK(first.looks == 2);
  CHECK(world.test(0, first));  // complete, and not looked at again
  CHECK(first.looks == 2);

  world.remove(0, second);
  CHECK(world.test(0, first));
  CHECK(second.looks == 3);
}

TEST_CASE("a failure releases a rank that waits, and every later call")
{
  ThreadScheduler world{2};
  Flag flag;
  world.add(0, flag);
  std::jthread other{[&] {
    short_sleep();
    world.fail(ThreadScheduler::Failure::peer_failed, "rank 1 is gone");
    world.fail(ThreadScheduler::Failure::mismatch, "too late to be reported");
    world.finish(1);
  }};
  CHECK_THROWS_AS(world.wait(0, flag), PeerFailed);
  CHECK_THROWS_WITH(world.test(0, flag), "rank 1 is gone");
  CHECK_THROWS_WITH(world.raise(), "rank 1 is gone");
}

TEST_CASE("each failure has its error")
{
  ThreadScheduler mismatch{1};
  mismatch.fail(ThreadScheduler::Failure::mismatch, "x");
  CHECK_THROWS_AS(mismatch.raise(), CollectiveMismatch);
  ThreadScheduler deadlock{1};
  deadlock.fail(ThreadScheduler::Failure::deadlock, "x");
  CHECK_THROWS_AS(deadlock.raise(), DeadlockError);
}

TEST_CASE("ranks that all wait are a deadlock, found by the last one")
{
  ThreadScheduler world{2};
  Flag red;
  Flag green;
  green.name = "green";
  std::string other_text;
  {
    std::jthread other{[&] {
      world.add(1, green);
      other_text = message_of<DeadlockError>([&] { world.wait(1, green); });
      world.finish(1);
    }};
    world.add(0, red);
    const auto text = message_of<DeadlockError>([&] { world.wait(0, red); });
    CHECK(mentions(text, "rank 0 waits in the red flag", "rank 1 waits in the green flag"));
    CHECK_FALSE(mentions(text, "have returned"));
    world.finish(0);
  }
  CHECK(mentions(other_text, "rank 0 waits in the red flag", "rank 1 waits in the green flag"));
}

TEST_CASE("a deadlock is reported once, though ranks finish while others are still being released")
{
  struct Counted final : detail::Waiter
  {
    explicit Counted(std::atomic<int>& n) : described{n} {}
    bool advance() override { return false; }
    [[nodiscard]] std::string describe() const override
    {
      ++described;
      return "a wait";
    }
    std::atomic<int>& described;
  };
  constexpr int ranks = 12;
  for (int run = 0; run < repeats(300, 50); ++run)
  {
    ThreadScheduler world{ranks};
    std::atomic<int> described{0};
    std::atomic<int> deadlocks{0};
    {
      std::vector<std::jthread> threads;
      for (int r = 0; r < ranks; ++r)
        threads.emplace_back([&, r] {
          Counted waiter{described};
          world.add(r, waiter);
          if (!message_of<DeadlockError>([&] { world.wait(r, waiter); }).empty()) ++deadlocks;
          world.finish(r);
        });
    }
    REQUIRE(deadlocks == ranks);
    REQUIRE(described == ranks);
  }
}

TEST_CASE("a rank that finishes while the others wait leaves a deadlock")
{
  ThreadScheduler world{2};
  Flag flag;
  world.add(0, flag);
  std::jthread other{[&] {
    short_sleep();
    world.finish(1);
  }};
  const auto text = message_of<DeadlockError>([&] { world.wait(0, flag); });
  CHECK(mentions(text, "rank 0 waits in the red flag", "ranks {1} have returned"));
}

TEST_CASE("ranks that all finish are no deadlock")
{
  ThreadScheduler world{3};
  for (int r = 0; r < 3; ++r) world.finish(r);
  CHECK_NOTHROW(world.raise());
}

TEST_CASE("a wait that takes longer than the limit says for whom, and fails the others")
{
  struct Late final : detail::Waiter
  {
    bool advance() override { return false; }
    [[nodiscard]] std::string describe() const override { return "a call"; }
    [[nodiscard]] std::vector<int> awaited() const override { return {1, 2, 3}; }
  };
  using namespace std::chrono_literals;
  ThreadScheduler world{4, 1000ms};
  world.finish(3);
  std::atomic<bool> over{false};
  std::string waiting;
  std::jthread computes{[&] {
    while (!over) std::this_thread::yield();
    world.finish(2);
  }};
  std::jthread waits{[&] {
    std::this_thread::sleep_for(300ms);  // its time ends later
    Flag flag;
    world.add(1, flag);
    waiting = message_of<PeerFailed>([&] { world.wait(1, flag); });
    world.finish(1);
  }};
  Late call;
  world.add(0, call);
  const auto begin = std::chrono::steady_clock::now();
  const auto text = message_of<TimeLimitError>([&] { world.wait(0, call); });
  CHECK(std::chrono::steady_clock::now() - begin >= 1000ms);
  over = true;
  CHECK(mentions(text, "waited for 1000 ms in a call, longer than the time limit allows",
                 "; rank 1 waits in the red flag; rank 2 is not waiting; rank 3 has returned",
                 "longer time limit"));
  waits.join();
  CHECK(mentions(waiting, "rank 0 waited for 1000 ms in a call"));
}

TEST_CASE("a deadlock and the end of a wait do not get in each other's way")
{
  // Ranks whose limits end as the last one of them parks.
  using namespace std::chrono_literals;
  for (int run = 0; run < repeats(100, 20); ++run)
  {
    ThreadScheduler world{2, 2ms};
    std::array<std::string, 2> seen;
    const auto wait = [&](int rank) {
      Flag flag;
      world.add(rank, flag);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::microseconds{1900 + run * 2});
      try
      {
        world.wait(rank, flag);
      }
      catch (const DeadlockError&)
      {
        seen[static_cast<std::size_t>(rank)] = "deadlock";
      }
      catch (const CommunicationError&)
      {
        seen[static_cast<std::size_t>(rank)] = "limit";
      }
      world.remove(rank, flag);
      world.finish(rank);
    };
    std::jthread other{wait, 1};
    wait(0);
    other.join();
    CHECK_FALSE(seen[0].empty());
    CHECK(seen[0] == seen[1]);
  }
}

TEST_CASE("who has not returned a while after a failure is known")
{
  using namespace std::chrono_literals;
  ThreadScheduler world{3};
  world.finish(1);
  world.fail(ThreadScheduler::Failure::peer_failed, "rank 1 failed");
  const auto [message, late] = world.stragglers(1ms);
  CHECK(message == "rank 1 failed");
  CHECK(late == std::vector<int>{0, 2});
  world.finish(0);
  world.finish(2);
  CHECK(world.stragglers(1min).second.empty());
}
