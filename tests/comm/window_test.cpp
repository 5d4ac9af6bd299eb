// SPDX-License-Identifier: BSD-3-Clause
#include <numeric>

#include "cubist/comm/window.hpp"

#include "conformance.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_window_test
{

// Tests what every communicator that exposes memory must do.

TEST_CASE("which communicators expose")
{
  STATIC_REQUIRE_FALSE(ExposesMemory<Counting<TestBackend>::Communicator>);
  require_clear(on_ranks<Counting<TestBackend>>(1, [](auto& world) {
    Findings found;
    found.check(!can_expose(world), "a counting communicator exposes memory");
    return found;
  }));
}

using World = TestBackend::Communicator;

template <Element T>
void check_windows(World& world, std::size_t count, Findings& found)
{
  auto mine = conformance::values<T>(world.rank(), count);
  for (int round = 0; round < 3; ++round)
  {
    auto window = world.expose(mine);
    for (int i = 0; i < world.size(); ++i)
    {
      const int r = (world.rank() + i) % world.size();
      const auto wanted = conformance::values<T>(r + round, count);
      const auto got = window[r];
      found.check(std::equal(got.begin(), got.end(), wanted.begin(), wanted.end()),
                  element_name<T>(), ": ", count, " elements of rank ", r, " in round ", round);
    }
    window.close();
    window.wait();
    mine = conformance::values<T>(world.rank() + round + 1, count);
  }
}

TEST_CASE("every rank reads the blocks of all, and may change its own once the window is complete")
{
  if (exposes<TestBackend>())
    for (const int ranks : those_that_fit<TestBackend>(conformance::group_sizes))
      require_clear(on_ranks<TestBackend>(ranks, [](World& world) {
        Findings found;
        for (const std::size_t count : conformance::more_counts())
        {
          check_windows<double>(world, count, found);
          check_windows<std::uint8_t>(world, count, found);
        }
        return found;
      }));
}

TEST_CASE("several windows are open at once, beside other calls")
{
  if (exposes<TestBackend>())
  {
    require_clear(on_ranks<TestBackend>(4, [](World& world) {
      Findings found;
      const std::vector<int> a(10, world.rank());
      std::vector<int> b(7, 10 * world.rank());
      auto half = world.split(world.rank() % 2, world.rank());
      for (int round = 0; round < repeats(50, 10); ++round)
      {
        auto as = world.expose(a);
        auto bs = half.expose(b);
        int sum = as[(world.rank() + 1) % 4][9];
        world.all_reduce(std::span{&sum, 1});
        found.check(sum == 6, "the sum of the exposed elements is ", sum);
        const int other = (world.rank() + 2) % 4;
        found.check(bs[1 - half.rank()][6] == 10 * other + round % 2, "wrong block of a split");
        bs.close();
        as.close();
        bs.wait();
        b.assign(7, 10 * world.rank() + (round + 1) % 2);
        as.wait();
      }
      return found;
    }));
  }
}

TEST_CASE("a window can be moved, and one that was not read can be closed")
{
  if (exposes<TestBackend>())
  {
    require_clear(on_ranks<TestBackend>(2, [](World& world) {
      Findings found;
      const std::vector<double> mine{1.0 + world.rank()};
      auto first = world.expose(mine);
      auto window = std::move(first);
      found.check(window[1 - world.rank()][0] == 2.0 - world.rank(), "wrong block after a move");
      window.close();
      window.wait();
      auto unread = world.expose(mine);
      unread.close();
      unread.wait();
      return found;
    }));
  }
}

TEST_CASE("some ranks may expose shorter blocks than others, or empty ones")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  require_clear(on_ranks<TestBackend>(4, [](World& world) {
    Findings found;
    for (const std::size_t longest : conformance::more_counts())
    {
      const std::array sizes{longest, std::size_t{0}, longest / 3, longest / 2};
      const auto size_of = [&](int rank) { return sizes[static_cast<std::size_t>(rank)]; };
      const auto mine = conformance::values<double>(world.rank(), size_of(world.rank()));
      auto window = world.expose(mine, longest);
      for (int r = 0; r < world.size(); ++r)
      {
        const auto wanted = conformance::values<double>(r, size_of(r));
        found.check(wanted.empty() || std::ranges::equal(window[r].first(wanted.size()), wanted),
                    wanted.size(), " of ", longest, " elements of rank ", r);
      }
      window.close();
      window.wait();
    }
    return found;
  }));
}

TEST_CASE("a writable block has what peers wrote once the window is complete")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  for (const int ranks : those_that_fit<TestBackend>(conformance::group_sizes))
    require_clear(on_ranks<TestBackend>(ranks, [](World& world) {
      Findings found;
      const auto n = static_cast<std::size_t>(world.size());
      // Processes have small blocks in the heap, and large ones in shared memory.
      for (const std::size_t piece : {1U, 1000U})
      {
        std::vector<int, TestBackend::Engine::Buffer<int>::allocator_type> mine(n * piece, -1);
        auto window = world.expose_writable(std::span<int>{mine});
        const auto me = static_cast<std::size_t>(world.rank());
        for (int r = 0; r < world.size(); ++r)
          for (std::size_t i = 0; i < piece; ++i)
            window[r][me * piece + i] = 100 * world.rank() + r;
        window.close();
        window.wait();
        for (std::size_t i = 0; i < mine.size(); ++i)
          found.check(mine[i] == 100 * static_cast<int>(i / piece) + world.rank(), "element ", i,
                      " of ", mine.size(), " is ", mine[i]);
      }
      return found;
    }));
}

TEST_CASE("ranks that expose memory agree on how many cores they share")
{
  if (!exposes<TestBackend>()) SKIP_TEST("ranks of this backend do not read each other's memory");
  require_clear(on_ranks<TestBackend>(2, [](World& world) {
    Findings found;
    std::vector<int> all(static_cast<std::size_t>(world.size()));
    world.all_gather(std::array{world.cores()}, all);
    for (const int cores : all)
      found.check(cores == all[0] && cores >= 1 &&
                      cores <= static_cast<int>(std::thread::hardware_concurrency()),
                  "a rank reports ", cores, " cores, the first one ", all[0]);
    return found;
  }));
}

#ifndef CUBIST_TEST_MPI

TEST_CASE("a rank that throws while peers read its block waits until they have read it")
{
  constexpr int ranks = 4;
  std::atomic<int> reading = 0;
  std::atomic<bool> freed = false;
  std::atomic<bool> read_late = false;
  const auto text = message_of<Error>([&] {
    launch<Threads>({.ranks = ranks}, [&](World& world) {
      struct Freed
      {
        std::vector<int> data;
        std::atomic<bool>* flag;
        ~Freed()
        {
          if (flag != nullptr) *flag = true;
        }
      };
      const Freed mine{std::vector<int>(3000, 1), world.rank() == 0 ? &freed : nullptr};
      auto window = world.expose(mine.data);
      const auto theirs = window[0];
      ++reading;
      if (world.rank() == 0)
      {
        while (reading < ranks) std::this_thread::yield();
        throw DataError{"the file ended"};
      }
      for (int i = 0; i < 20; ++i)
      {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (freed || std::accumulate(theirs.begin(), theirs.end(), 0) != 3000) read_late = true;
      }
      window.close();
      window.wait();
    });
  });
  CHECK(text == "rank 0: the file ended");
  CHECK(freed);
  CHECK_FALSE(read_late);
}

TEST_CASE("a revoked window wakes peers that read its block and wait in another call")
{
  // Rank 1 reads rank 0's block, and waits for a message that nobody sends; rank 0 must not wait
  // for rank 1 forever.
  const auto text = message_of<Error>([&] {
    launch<Threads>({.ranks = 2}, [&](World& world) {
      const std::vector<int> mine(3, world.rank());
      std::vector<int> message(1);
      auto window = world.expose(mine);
      if (window[1 - world.rank()][2] != 1 - world.rank()) throw std::logic_error{"a wrong block"};
      if (world.rank() == 0) throw DataError{"the file ended"};
      world.receive(message, 0);
    });
  });
  CHECK(text == "rank 0: the file ended");
}

TEST_CASE("a rank that fails before it exposes releases its peers")
{
  const Watchdog watchdog;
  std::atomic<int> released = 0;
  const auto text = message_of<Error>([&] {
    launch<Threads>({.ranks = 3}, [&](World& world) {
      if (world.rank() == 2) throw DataError{"the file ended"};
      const std::vector<int> mine(3);
      try
      {
        auto window = world.expose(mine);
        static_cast<void>(window[2]);
      }
      catch (const PeerFailed&)
      {
        ++released;
        throw;
      }
    });
  });
  CHECK(text == "rank 2: the file ended");
  CHECK(released == 2);
}

TEST_CASE("blocks of different sizes are a mismatch, and windows that no rank closes a deadlock")
{
  const Watchdog watchdog;
  CHECK(mentions(message_of<CollectiveMismatch>([] {
                   launch<Threads>({.ranks = 2}, [](World& world) {
                     const std::vector<int> mine(static_cast<std::size_t>(world.rank()) + 1);
                     auto window = world.expose(mine);
                     window.close();
                     window.wait();
                   });
                 }),
                 "expose of 1 int32", "expose of 2 int32"));
  CHECK(mentions(message_of<DeadlockError>([] {
                   launch<Threads>({.ranks = 2}, [](World& world) {
                     const std::vector<int> mine(3000);  // a small block would be copied
                     auto window = world.expose(mine);
                     static_cast<void>(window[0]);
                     if (world.rank() == 0) window.close(), window.wait();
                     if (world.rank() == 1) world.barrier();
                   });
                 }),
                 "expose of 3000 int32"));
  CHECK(mentions(message_of<CollectiveMismatch>([] {
                   launch<Threads>({.ranks = 2}, [](World& world) {
                     std::vector<int> mine(3);
                     if (world.rank() == 0) return world.expose(mine).wait();
                     world.expose_writable(std::span{mine}).wait();
                   });
                 }),
                 "expose of 3 int32 to write"));
}

TEST_CASE("a rank that does not read waits once, when it waits for the window")
{
  const Watchdog watchdog;
  for (const std::size_t count : {3U, 3000U})  // copied, and in place
  {
    std::atomic<bool> closed = false;
    launch<Threads>({.ranks = 2}, [&](World& world) {
      std::vector<int> mine(count, world.rank());
      if (world.rank() == 1)
        while (!closed) std::this_thread::yield();
      auto window = world.expose(mine);
      if (world.rank() == 1 && window[0][count - 1] != 0) throw std::logic_error{"a wrong block"};
      window.close();
      closed = true;  // rank 1 has not exposed its block yet
      window.wait();
    });
    CHECK(closed);
  }
}

TEST_CASE("a small block may change while peers read it, as they read a copy")
{
  CHECK(results_of<int, Threads>(3, [](World& world) {
          std::vector<int> mine{10 * world.rank()};
          auto window = world.expose(mine);
          const auto theirs = window[(world.rank() + 1) % 3];
          mine[0] = -1;
          world.barrier();
          const int read = theirs[0];
          window.close();
          window.wait();
          return read;
        }) == std::vector<int>{10, 20, 0});
}

#endif

}  // namespace cubist::test::comm_window_test
