// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/mpi.hpp"

#include "../comm/mpi/job_context.hpp"
#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::backend_mpi_test
{

// Every process runs these tests, and asserts its own results.

using World = MpiCommunicator;

/// The message of what `launch` throws on this process when every rank runs `body`.
template <class E, class F>
std::string thrown(F&& body)
{
  return message_of<E>([&] { launch<Mpi>({.rethrow = true}, body); });
}

static std::string on_rank(int rank) { return "rank " + std::to_string(rank) + ": "; }

/// The number that a new communicator would get in this process: the lowest free one.
static MPI_Fint lowest_free_number()
{
  MPI_Comm fresh = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
  const auto n = MPI_Comm_c2f(fresh);
  MPI_Comm_free(&fresh);
  return n;
}

TEST_CASE("every process is a rank")
{
  int runs = 0;
  launch<Mpi>({}, [&](World& world) {
    world.barrier();
    runs += world.rank() == process() && world.size() == processes() ? 1 : 100;
  });
  CHECK(runs == 1);
}

TEST_CASE("fewer ranks than processes leave the last processes idle")
{
  for (int ranks = 1; ranks <= processes(); ++ranks)
  {
    int sum = 0;
    launch<Mpi>({.ranks = ranks}, [&](World& world) {
      std::vector<int> x{1};
      world.all_reduce(x);
      sum += x[0];
    });
    CHECK(sum == (process() < ranks ? ranks : 0));
  }
}

TEST_CASE("an impossible number of ranks is an error that names both numbers and the fix")
{
  for (const int ranks : {processes() + 1, 0, -1})
  {
    int runs = 0;
    const auto text = message_of<ArgumentError>(
        [&] { launch<Mpi>({.ranks = ranks, .rethrow = true}, [&](World&) { ++runs; }); });
    CAPTURE(ranks, text);
    CHECK(mentions(text, on_rank(process()) + "got " + std::to_string(ranks) + " ranks",
                   "MPI has " + std::to_string(processes()) + " processes",
                   "start " + std::to_string(ranks < 1 ? 1 : ranks) + " with mpiexec -n"));
    CHECK(runs == 0);
  }
}

TEST_CASE("a launch on a communicator of the program runs on its ranks")
{
  const boost::mpi::communicator all;
  const auto backwards = all.split(all.rank() % 2, -all.rank());
  const auto odd_or_even = (processes() + 1 - all.rank() % 2) / 2;
  struct Seen
  {
    int rank = -1, size = -1, sum = -1;
  };
  const auto look = [](auto& world) {
    std::vector<int> x{1};
    world.all_reduce(x);
    return Seen{world.rank(), world.size(), x[0]};
  };
  Seen seen;
  launch<Mpi>(all, [&](World& world) { seen = look(world); });
  CHECK(seen.rank == all.rank());
  CHECK(seen.sum == all.size());

  launch<Mpi>(backwards, [&](World& world) { seen = look(world); });
  CHECK(seen.rank == backwards.rank());
  CHECK(seen.size == odd_or_even);
  CHECK(seen.sum == odd_or_even);

  std::size_t words = 0;
  launch<Counting<Mpi>>(backwards, [&](CountingCommunicator<World>& world) {
    seen = look(world);
    words = world.traffic()[CallKind::all_reduce].elements;
  });
  CHECK(seen.rank == backwards.rank());
  CHECK(seen.sum == odd_or_even);
  CHECK((words > 0) == (odd_or_even > 1));
}

TEST_CASE("a launch on a communicator of the program takes options")
{
  using namespace std::chrono_literals;
  const boost::mpi::communicator all;
  const auto pairs = all.split(all.rank() / 2);
  const bool alone = pairs.size() == 1;

  const auto thrown_on_pairs = message_of<Error>([&] {
    launch<Mpi>(pairs, {.rethrow = true}, [&](World& world) {
      if (world.rank() == world.size() - 1) throw ArgumentError{"got nothing"};
      world.barrier();
    });
  });
  CHECK(mentions(thrown_on_pairs, "got nothing"));

  const auto late = message_of<Error>([&] {
    launch<Counting<Mpi>>(pairs, {.rethrow = true, .time_limit = 300ms}, [&](auto& world) {
      if (world.rank() == 1) std::this_thread::sleep_for(1s);
      world.barrier();
    });
  });
  CHECK((alone ? late.empty() : mentions(late, "300 ms in barrier")));

  int size = 0;
  CHECK(launch<Mpi>(pairs, {.ranks = 1}, [&](World& world) { size = world.size(); }) == 0);
  CHECK(size == (pairs.rank() == 0 ? 1 : 0));
}

TEST_CASE("messages of the program are not matched with those of the ranks")
{
  const boost::mpi::communicator all;
  const int next = (all.rank() + 1) % all.size();
  int from_previous = -1;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&from_previous, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, all, &request);
  launch<Mpi>(all, [&](World& world) {
    std::vector<int> x{1};
    world.all_reduce(x);
    const int mine = world.rank();
    MPI_Send(&mine, 1, MPI_INT, next, 0, all);
    world.all_reduce(x);
  });
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  CHECK(from_previous == (all.rank() + all.size() - 1) % all.size());
}

TEST_CASE("many launches one after the other free all of their communicators")
{
  const auto before = lowest_free_number();
  const int launches = repeats(100, 50);
  int sum = 0;
  for (int i = 0; i < launches; ++i)
    launch<Mpi>({}, [&](World& world) {
      if (i % 10 == 0)
      {
        std::vector<int> x{1};
        world.split(world.rank() % 2, 0).all_reduce(x);
      }
      ++sum;
    });
  CHECK(sum == launches);
  CHECK(lowest_free_number() == before);
}

TEST_CASE("a program that has initialised MPI can use it after a launch")
{
  // The main function of these tests is such a program.
  launch<Mpi>({}, [](World& world) { world.barrier(); });
  CHECK_FALSE(boost::mpi::environment::finalized());
  int sum = 0;
  const int one = 1;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(sum == processes());
}

TEST_CASE("when all ranks throw, each launch throws its own rank's error")
{
  for (int run = 0; run < 10; ++run)
  {
    const auto text = thrown<ShapeError>(
        [](World& world) { throw ShapeError{"got " + std::to_string(world.rank()) + " rows"}; });
    CHECK(text == on_rank(process()) + "got " + std::to_string(process()) + " rows");
  }
}

TEST_CASE("when one rank throws, the launches of the others throw PeerFailed with its error")
{
  const Watchdog watchdog;
  const int thrower = GENERATE(0, 1) * (processes() - 1);
  const auto calls = std::to_array<void (*)(World&)>(
      {[](World& w) { w.barrier(); }, [](World& w) { w.broadcast(std::vector<int>(3), 0); },
       [](World& w) { w.all_reduce(std::vector<double>(100'000)); },
       [](World& w) {
         w.all_gather(std::vector<int>(3), std::vector<int>(3 * static_cast<unsigned>(w.size())));
       },
       [](World& w) { w.receive(std::vector<int>(3), (w.rank() + 1) % w.size()); },
       [](World& w) { w.split(0, 0).barrier(); }, [](World&) {}});
  for (std::size_t i = 0; i < calls.size(); ++i)
  {
    CAPTURE(thrower, i);
    std::optional<int> rank;
    const auto text = message_of<Error>([&] {
      try
      {
        launch<Mpi>({.rethrow = true}, [&](World& world) {
          if (world.rank() == thrower) throw DataError{"the file ended"};
          calls[i](world);
          if (i + 1 < calls.size()) world.barrier();
        });
      }
      catch (const PeerFailed& e)
      {
        rank = e.rank();
        throw;
      }
    });
    if (process() == thrower)
      CHECK(text == on_rank(thrower) + "the file ended");
    else
    {
      CHECK(rank == process());
      CHECK(mentions(text, "rank " + std::to_string(thrower) + " failed (the file ended)",
                     "fix that rank's error"));
    }
  }
}

TEST_CASE("a rank may throw while its calls are in flight")
{
  const Watchdog watchdog;
  // Peers may be reading its buffers when they are freed.
  for (const std::size_t n : {10U, 1'000'000U})
  {
    const auto text = thrown<Error>([&](World& world) {
      std::vector<double> x(n, 1.0);
      if (world.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      auto broadcast = world.async_broadcast(x, 0);
      std::vector<double> y(n, 1.0);
      auto sum = world.async_all_reduce(y);
      if (world.rank() == 0) throw DataError{"the file ended"};
      broadcast.wait();
      sum.wait();
      world.barrier();
    });
    CAPTURE(n, text);
    CHECK(mentions(text, "the file ended"));
  }
}

TEST_CASE("a rank may catch PeerFailed, but launch throws nevertheless")
{
  const Watchdog watchdog;
  const auto text = thrown<Error>([](World& world) {
    if (world.rank() == 0) throw DataError{"the file ended"};
    const auto seen = message_of<PeerFailed>([&] { world.barrier(); });
    const auto later = message_of<PeerFailed>([&] { (void)world.async_barrier(); });
    if (seen.empty() || later.empty()) throw ShapeError{"no PeerFailed"};
  });
  CHECK(mentions(text, "the file ended"));
}

TEST_CASE("after a notification that a rank may not have received, no rank frees its communicator")
{
  const Watchdog watchdog;
  if (processes() == 1 || !one_node()) SKIP_TEST("needs several processes on one node");
  const auto before = lowest_free_number();
  launch<Mpi>({.rethrow = true}, [](World& world) {
    // The other ranks reach the end of the launch at once.
    if (world.rank() > 1) return;
    if (world.rank() == 0) return std::this_thread::sleep_for(std::chrono::milliseconds{50});
    try
    {
      auto abandoned = world.async_barrier();
      throw DataError{"no file"};
    }
    catch (const DataError&)
    {
    }
  });
  CHECK(lowest_free_number() != before);
}

TEST_CASE("a rank that is late ends the launch at its time limit")
{
  const Watchdog watchdog;
  if (processes() != 2) SKIP_TEST("needs 2 processes");
  using namespace std::chrono_literals;
  const auto text = message_of<Error>([&] {
    launch<Mpi>({.rethrow = true, .time_limit = 300ms}, [&](World& world) {
      if (world.rank() == 1) std::this_thread::sleep_for(900ms);
      world.barrier();
      world.barrier();
    });
  });
  CHECK(mentions(text,
                 process() == 0 ? "rank 0: waited for 300 ms in barrier on ranks {0, 1}"
                                : "rank 1: rank 0 failed (waited for 300 ms",
                 "nothing received from ranks {1}"));
  CHECK_THROWS_AS(launch<Mpi>({.rethrow = true, .time_limit = 0ms}, [](World&) {}), ArgumentError);
}

TEST_CASE("a wait for a rank that has returned ends within seconds, and names the rank")
{
  const Watchdog watchdog;
  if (processes() != 4) SKIP_TEST("needs 4 processes");
  using V = std::vector<double>;
  struct Named
  {
    const char* call;
    void (*body)(World&);
    bool share_memory = true;
  };
  const auto barrier = [](World& w) {
    auto half = w.split(w.rank() / 2, 0);
    if (w.rank() == 2) return;
    half.barrier();
    w.barrier();
  };
  // Rank 2 returns. In the last three cases, ranks that do not wait for it return, too.
  const std::vector<Named> waits{
      {"called barrier on ranks {", barrier},
      {"called barrier on ranks {", barrier, false},
      {"called broadcast of 10 double with root 0 on ranks {0, 1, 2, 3}",
       [](World& w) {
         if (w.rank() != 2) w.broadcast(V(10), 0);
       }},
      {"called receive of 3 double on ranks {1, 2}",
       [](World& w) {
         if (w.rank() == 1) w.receive(V(3), 2);
       }},
      {"called send of 1000000 double on ranks {3, 2}",
       [](World& w) {
         if (w.rank() == 3) w.send(V(1'000'000), 2);
       }},
  };
  for (const auto& wait : waits)
  {
    // Open MPI aborts a job that frees memory of a pending send between nodes.
    if (mentions(wait.call, "send") && !one_node()) continue;
    CAPTURE(wait.call);
    const auto begin = std::chrono::steady_clock::now();
    Mpi::options.share_memory = wait.share_memory;
    const auto text = thrown<Error>(wait.body);
    Mpi::options = {};
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    CAPTURE(text);
    CHECK(mentions(text, wait.call, "which ranks {2} have not called; ranks {2} have returned"));
    CHECK(seconds.count() < 5);
  }
}

TEST_CASE("ranks that return early do not end the calls of others, nor what they have sent")
{
  const Watchdog watchdog;
  if (processes() != 4) SKIP_TEST("needs 4 processes");
  using namespace std::chrono_literals;
  const auto before = lowest_free_number();
  std::vector<int> received(1000);
  std::vector<int> sum(1000, process());
  launch<Mpi>({.rethrow = true}, [&](World& world) {
    auto others = world.split(world.rank() == 2 ? 1 : 0, 0);
    if (world.rank() == 2)
    {
      std::this_thread::sleep_for(700ms);
      world.send(sum, 0);
      return world.send(sum, 1);
    }
    if (world.rank() == 0) world.receive(received, 2);  // asks rank 2
    if (world.rank() == 1) std::this_thread::sleep_for(1500ms);
    others.barrier();  // asks rank 1
    if (world.rank() == 1) world.receive(received, 2);
    others.all_reduce(sum);
  });
  CHECK(sum == std::vector<int>(1000, process() == 2 ? 2 : 4));
  if (process() < 2) CHECK(received == std::vector<int>(1000, 2));
  CHECK(lowest_free_number() == before);
}

TEST_CASE("launch throws an error of another library inside RankFailed")
{
  try
  {
    launch<Mpi>({.rethrow = true}, [](World&) { throw std::out_of_range{"index 7"}; });
    FAIL_CHECK("nothing was thrown");
  }
  catch (const RankFailed& e)
  {
    CHECK(e.rank() == process());
    CHECK(std::string{e.what()} == on_rank(process()) + "index 7");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
  }
  const auto text = thrown<RankFailed>([](World&) { throw 42; });
  CHECK(mentions(text, "not a std::exception", "throw a cubist::Error instead"));

  const auto peer = thrown<Error>([](World& world) {
    if (world.rank() == 0) throw 42;
    world.barrier();
  });
  CHECK(mentions(peer, process() == 0 ? "not a std::exception" : "rank 0 failed"));
}

TEST_CASE("a failed launch does not affect the next one")
{
  // The next launch must not receive messages that no rank of the failed one has received.
  for (int run = 0; run < repeats(30, 10); ++run)
  {
    const auto text = thrown<Error>([&](World& world) {
      auto half = world.split(world.rank() % 2, 0);
      std::vector<int> x(1000, run);
      auto lost = half.async_all_reduce(x);
      if (world.rank() == run % world.size()) throw DataError{"run " + std::to_string(run)};
      lost.wait();
      world.all_reduce(x);
    });
    CHECK(mentions(text, "run " + std::to_string(run)));
    std::vector<int> x(1000, run);
    launch<Mpi>({}, [&](World& world) { world.all_reduce(x); });
    CHECK(x == std::vector<int>(1000, run * processes()));
  }
}

TEST_CASE("a launch may run inside a rank of another one")
{
  int inner = 0;
  int outer = 0;
  launch<Mpi>({}, [&](World& world) {
    std::vector<int> x{1};
    auto pending = world.async_all_reduce(x);
    launch<Mpi>({}, [&](World& within) {
      std::vector<int> y{10};
      within.all_reduce(y);
      inner = y[0];
    });
    pending.wait();
    outer = x[0];
  });
  CHECK(inner == 10 * processes());
  CHECK(outer == processes());
}

TEST_CASE("the BLAS of each rank uses its share of the machine's cores")
{
  if (blas_threads() != 0)
  {
    const int before = blas_threads();
    int during = 0;
    launch<Mpi>({}, [&](World&) { during = blas_threads(); });
    CHECK(during >= 1);
    CHECK(during <= std::max(1, before));
    CHECK(blas_threads() == before);
  }
}

TEST_CASE("a program that mpiexec started, and that uses Mpi, is not warned of its copies")
{
  CHECK(Mpi::started());
  launch<Mpi>({}, [](World&) {});
  CHECK(cubist::detail::take_copies_warning().empty());
}

}  // namespace cubist::test::backend_mpi_test
