// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <initializer_list>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cubist/comm/threads/rank_cores.hpp"

#include "catch.hpp"

namespace cubist::test::comm_threads_rank_cores_test
{

using namespace std::chrono_literals;
using cubist::detail::emptier_core;
using cubist::detail::RankCores;

/// How many times this thread has changed the cores of a thread, and how long each change takes at
/// least.
static thread_local int changes = 0;
static thread_local std::chrono::milliseconds delay{0};

[[nodiscard]] static cpu_set_t set_of(const std::vector<int>& cores)
{
  cpu_set_t all;
  CPU_ZERO(&all);
  for (const int core : cores) CPU_SET(static_cast<unsigned>(core), &all);
  return all;
}

[[nodiscard]] static std::vector<int> allowed_cores()
{
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return {};
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &all)) cores.push_back(core);
  return cores;
}

/// Where a rank on core `mine` moves if ranks are on these cores and it may run on `allowed`.
[[nodiscard]] static std::optional<int> target(int mine, const std::vector<int>& ranks,
                                               const std::vector<int>& allowed)
{
  cubist::detail::RanksOnCores on{};
  for (const int core : ranks) ++on[static_cast<std::size_t>(core)];
  return emptier_core(mine, static_cast<int>(ranks.size()), on, set_of(allowed));
}

/// Calls f(cores) on a thread that may run on the first two cores of this process only, with the
/// numbers of these cores. Returns what f returns, and the cores on which the thread may then run.
/// @pre at least two cores
template <class F>
auto on_two_cores(F f)
{
  auto all = allowed_cores();
  all.resize(2);
  decltype(f(all)) result{};
  std::vector<int> after;
  std::thread{[&] {
    const cpu_set_t two = set_of(all);
    sched_setaffinity(0, sizeof two, &two);
    changes = 0;
    result = f(all);
    after = allowed_cores();
  }}.join();
  return std::pair{result, after == all};
}

/// Two ranks of which both compute on the core of this thread, as rank 0 of which it moves. Returns
/// whether it moves.
[[nodiscard]] static bool move_away_from_other(RankCores& cores, bool others_compute = false)
{
  const std::array ranks{0, 1};
  cores.compute(1);
  return cores.spread(0, ranks, 2, others_compute);
}

TEST_CASE("a rank moves to the core with the fewest ranks if more than their share are on its own")
{
  CHECK(target(0, {0, 0}, {0, 1}) == 1);
  CHECK(target(0, {0, 1}, {0, 1}) == std::nullopt);
  CHECK(target(0, {0, 0, 0, 1}, {0, 1}) == 1);
  CHECK(target(1, {0, 0, 0, 1}, {0, 1}) == std::nullopt);
  CHECK(target(0, {0, 0, 0, 1, 1}, {0, 1}) == std::nullopt);
  CHECK(target(3, {3, 3, 3, 1, 1, 2}, {1, 2, 3}) == 2);
}

TEST_CASE("a rank moves only to cores on which it may run, and only if every core has work")
{
  CHECK(target(0, {0, 0, 0, 0}, {0}) == std::nullopt);
  CHECK(target(2, {2, 2, 2, 2}, {2, 5}) == 5);
  // Four ranks on eight cores: others may use the cores without ranks.
  CHECK(target(0, {0, 0, 0, 1}, {0, 1, 2, 3, 4, 5, 6, 7}) == std::nullopt);
  // The other ranks are on cores that this rank may not use.
  CHECK(target(0, {0, 0, 4, 5}, {0, 1}) == std::nullopt);
}

TEST_CASE("a rank that shares a core with the other worker moves, and may run on the same cores")
{
  if (allowed_cores().size() < 2) SKIP_TEST("this process has one core");
  const auto [seen, restored] = on_two_cores([](const std::vector<int>& two) {
    struct
    {
      bool moves = false, arrives = false;
    } found;
    // Linux may also move the thread, but hardly each time.
    for (int attempt = 0; attempt < 100 && !(found.moves && found.arrives); ++attempt)
    {
      RankCores cores{2};
      const int before = sched_getcpu();
      found.moves = move_away_from_other(cores);
      found.arrives = sched_getcpu() == (before == two[0] ? two[1] : two[0]);
    }
    return found;
  });
  CHECK(seen.moves);
  CHECK(seen.arrives);
  CHECK(restored);
}

TEST_CASE("a rank that the user has bound to one core stays there")
{
  const auto all = allowed_cores();
  int calls = 0;
  std::vector<int> after;
  std::thread{[&] {
    const cpu_set_t one = set_of({all.back()});
    sched_setaffinity(0, sizeof one, &one);
    changes = 0;
    RankCores cores{2};
    (void)move_away_from_other(cores);
    calls = changes;
    after = allowed_cores();
  }}.join();
  CHECK(calls == 0);
  CHECK(after == std::vector{all.back()});
}

TEST_CASE("a rank looks for another core once in a millisecond")
{
  if (allowed_cores().size() < 2) SKIP_TEST("this process has one core");
  const auto [moves, restored] = on_two_cores([](const std::vector<int>&) {
    int most = 0;
    for (int attempt = 0; attempt < 100; ++attempt)
    {
      RankCores cores{2};
      const auto begin = RankCores::Clock::now();
      int moved = 0;
      while (RankCores::Clock::now() < begin + 500us) moved += move_away_from_other(cores);
      if (RankCores::Clock::now() < begin + 1ms) most = std::max(most, moved);
    }
    return most;
  });
  CHECK(moves == 1);
  CHECK(restored);
}

TEST_CASE("a rank looks ten times less often while other processes compute")
{
  if (allowed_cores().size() < 2) SKIP_TEST("this process has one core");
  const auto moves = on_two_cores([](const std::vector<int>&) {
    int all = 0;
    for (int attempt = 0; attempt < 20; ++attempt)
    {
      RankCores cores{2};
      const auto begin = RankCores::Clock::now();
      (void)move_away_from_other(cores, true);
      std::this_thread::sleep_for(2ms);
      const bool moves_again = move_away_from_other(cores, true);
      if (RankCores::Clock::now() < begin + 10ms) all += moves_again;
    }
    return all;
  });
  CHECK(moves.first == 0);
}

/// Returns how many times rank 0 of 4 moves in the 10 ms after a move that takes the time `slow` or
/// more. Returns nothing if Linux moves it first, or if other programs make this take so long that
/// any pause is over.
/// @param is_shared whether rank 3 computes on the core to which rank 0 moves first
[[nodiscard]] static std::optional<int> moves_after(std::chrono::milliseconds slow, bool is_shared,
                                                    bool others_compute = false)
{
  using Moves = std::optional<int>;
  return on_two_cores([&](const std::vector<int>& two) -> Moves {
           RankCores cores{4};
           if (is_shared)
           {
             cubist::detail::run_on_core(two[1], set_of(two));
             cores.compute(3);
             cubist::detail::run_on_core(two[0], set_of(two));
           }
           const auto begin = RankCores::Clock::now();
           delay = slow;
           const bool moves = move_away_from_other(cores, others_compute);
           delay = 0ms;
           if (!moves) return {};
           int again = 0;
           for (int i = 0; i < 5; ++i)
           {
             std::this_thread::sleep_for(2ms);
             again += move_away_from_other(cores);
           }
           return RankCores::Clock::now() < begin + 200ms ? Moves{again} : Moves{};
         })
      .first;
}

TEST_CASE("ranks stay for a while after a slow move, which may have met another process")
{
  if (allowed_cores().size() < 2) SKIP_TEST("this process has one core");
  // If other programs compute, a move may be slow without a delay, too.
  const auto moves_once = [](std::chrono::milliseconds slow, bool is_shared) {
    for (int attempt = 0; attempt < 200; ++attempt)
      if (moves_after(slow, is_shared).value_or(0) > 0) return true;
    return false;
  };
  CHECK(moves_once(0ms, false));
  CHECK(moves_once(3ms, true));  // it met a rank, not another process
  for (int attempt = 0; attempt < 10; ++attempt)
  {
    CHECK(moves_after(3ms, false).value_or(0) == 0);
    CHECK(moves_after(3ms, true, true).value_or(0) == 0);  // it may have met both
  }
}

TEST_CASE("cores on which ranks compute are counted, not those on which they wait")
{
  RankCores cores{3};
  CHECK(cores.busy() == 0);
  cores.wait(0);
  CHECK(cores.busy() == 0);
  cores.compute(1);
  CHECK(cores.busy() == 1);
  cores.wait(1);
  CHECK(cores.busy() == 0);
}

}  // namespace cubist::test::comm_threads_rank_cores_test

/// Counts and delays changes of the cores of a thread.
extern "C" int sched_setaffinity(pid_t thread, std::size_t size, const cpu_set_t* cores) noexcept
{
  using namespace cubist::test::comm_threads_rank_cores_test;
  ++changes;
  const auto end = RankCores::Clock::now() + delay;
  while (RankCores::Clock::now() < end)
  {
  }
  return static_cast<int>(syscall(SYS_sched_setaffinity, thread, size, cores));
}
