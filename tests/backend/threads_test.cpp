// SPDX-License-Identifier: BSD-3-Clause
#include <csignal>
#include <fstream>
#include <future>
#include <set>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "cubist/backend/threads.hpp"

#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::backend_threads_test
{

using World = ThreadsCommunicator;

TEST_CASE("every rank has its own thread, and rank 0 runs on the launching one")
{
  const int ranks = GENERATE(1, 2, 7);
  struct Seen
  {
    int rank, size;
    std::thread::id thread;
  };
  const auto seen = on_ranks<Threads>(ranks, [](World& world) {
    world.barrier();
    return Seen{world.rank(), world.size(), std::this_thread::get_id()};
  });
  REQUIRE(seen.size() == static_cast<std::size_t>(ranks));
  std::set<std::thread::id> threads;
  for (int r = 0; r < ranks; ++r)
  {
    CHECK(seen[static_cast<std::size_t>(r)].rank == r);
    CHECK(seen[static_cast<std::size_t>(r)].size == ranks);
    threads.insert(seen[static_cast<std::size_t>(r)].thread);
  }
  CHECK(threads.size() == static_cast<std::size_t>(ranks));
  CHECK(seen[0].thread == std::this_thread::get_id());
}

/// How a process that called a function ended, and what it printed on standard error.
struct Ended
{
  int status;  // of the shell: 128 + n for signal n
  std::string printed;
};

template <class F>
Ended ended(F f)
{
  std::FILE* const errors = std::tmpfile();
  REQUIRE(errors != nullptr);
  const pid_t child = fork();
  if (child == 0)
  {
    dup2(fileno(errors), STDERR_FILENO);
    std::signal(SIGABRT, SIG_DFL);  // Catch2 would report it
    [&]() noexcept { f(); }();
    std::_Exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Ended result{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ""};
  std::rewind(errors);
  for (int c = 0; (c = std::fgetc(errors)) != EOF;) result.printed += static_cast<char>(c);
  std::fclose(errors);
  return result;
}

/// Runs `body` like a program that passes its arguments on.
template <class F>
int launch_program(const LaunchOptions& options, F&& body)
{
  int argc = 0;
  char* none[] = {nullptr};
  char** argv = none;
  return launch<Threads>(argc, argv, options, body);
}

TEST_CASE("an error ends a program that passes its arguments, with one line and status 1")
{
  const auto fail = [](World& world) {
    if (world.rank() == 1) throw DataError{"no file"};
    world.barrier();
  };
  if constexpr (!sanitized)  // ThreadSanitizer starts no threads after a fork
  {
    const auto thrown = ended([&] { launch_program({.ranks = 3}, fail); });
    CHECK(thrown.status == 1);
    CHECK(thrown.printed == "cubist: rank 1: no file\n");

    const auto refused = ended([&] { launch_program({.ranks = 0}, fail); });
    CHECK(refused.status == 1);
    CHECK(mentions(refused.printed, "cubist: got 0 ranks", "use a number in this range"));

    const auto mismatch = ended([] {
      launch_program({.ranks = 1}, [](World& world) {
        auto own = world.async_send(std::vector<int>(1), 0);
        world.receive(std::vector<int>(2), 0);
      });
    });
    CHECK(mismatch.status == 1);
    CHECK(mentions(mismatch.printed, "cubist: rank 0 called receive of 2"));

    // The outer launch reports the error, as its other ranks still run.
    const auto nested = ended([&] {
      launch_program({.ranks = 2}, [&](World& world) {
        if (world.rank() == 1) launch_program({.ranks = 2}, fail);
        world.barrier();
      });
    });
    CHECK(nested.status == 1);
    CHECK(nested.printed == "cubist: rank 1: no file\n");
  }
  CHECK_THROWS_AS(launch_program({.ranks = 3, .rethrow = true}, fail), DataError);
  CHECK_THROWS_AS(launch<Threads>({.ranks = 3}, fail), DataError);
}

TEST_CASE("by default there is a rank for each core")
{
  std::atomic<int> ranks{0};
  launch<Threads>({}, [&](World&) { ++ranks; });
  CHECK(ranks == static_cast<int>(std::thread::hardware_concurrency()));
}

TEST_CASE("under mpiexec, the first process warns once that each runs a copy of the program")
{
  // A fresh process, as process `rank` of 3, runs a test that launches several times.
  const auto printed_by = [](const char* rank) {
    return ended([&] {
      setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
      setenv("OMPI_COMM_WORLD_RANK", rank, 1);
      setenv("CUBIST_BLAS_WARNING", "off", 1);
      dup2(open("/dev/null", O_WRONLY), STDOUT_FILENO);
      execl("/proc/self/exe", "test", "every rank has its own thread*", nullptr);
    });
  };
  const auto first = printed_by("0");
  CHECK(first.status == 0);
  CHECK(mentions(first.printed, "cubist: got 3 processes", "start it without mpiexec"));
  CHECK(std::count(first.printed.begin(), first.printed.end(), '\n') == 1);
  CHECK(printed_by("1").printed.empty());
}

TEST_CASE("invalid numbers of ranks are errors that name the valid ones")
{
  for (const int ranks : {0, -1, Threads::most_ranks + 1, std::numeric_limits<int>::max(),
                          std::numeric_limits<int>::min()})
  {
    int runs = 0;
    const auto text = message_of<ArgumentError>(
        [&] { launch<Threads>({.ranks = ranks}, [&](World&) { ++runs; }); });
    CAPTURE(ranks, text);
    CHECK(mentions(text, "got " + std::to_string(ranks) + " ranks",
                   "1 to " + std::to_string(Threads::most_ranks), "use a number in this range"));
    CHECK(runs == 0);
  }
}

TEST_CASE("more threads than the system allows are an error, not a hang")
{
  const Watchdog watchdog;
  if constexpr (!sanitized)  // sanitizers map more memory than any limit
  {
    // Each thread needs megabytes of stack; one more gigabyte is enough for only some of them.
    rlim_t pages = 0;
    std::ifstream{"/proc/self/statm"} >> pages;
    REQUIRE(pages > 0);
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    rlimit limited = before;
    limited.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (rlim_t{1} << 30);
    REQUIRE(setrlimit(RLIMIT_AS, &limited) == 0);
    const auto text = message_of<CommunicationError>(
        [] { launch<Threads>({.ranks = 4000}, [](World& world) { world.barrier(); }); });
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    CHECK(mentions(text, "got 4000 ranks", "use fewer ranks"));
  }
}

struct OwnError : ShapeError
{
  using ShapeError::ShapeError;
  int code = 17;
};

/// Throws `error` on rank 1 of 3, while its peers wait in a barrier.
template <class E>
void throw_on_rank_1(const E& error)
{
  launch<Threads>({.ranks = 3}, [&](World& world) {
    if (world.rank() == 1) throw error;
    world.barrier();
  });
}

TEST_CASE("launch rethrows an error with its type, and its rank")
{
  try
  {
    throw_on_rank_1(OwnError{"got 3 rows; give 4"});
    FAIL("nothing was thrown");
  }
  catch (const OwnError& e)
  {
    CHECK(e.code == 17);
    CHECK(e.rank() == 1);
    CHECK(std::string{e.what()} == "rank 1: got 3 rows; give 4");
  }
}

TEST_CASE("launch nests an error of another library in RankFailed")
{
  try
  {
    throw_on_rank_1(std::out_of_range{"index 7"});
    FAIL("nothing was thrown");
  }
  catch (const RankFailed& e)
  {
    CHECK(e.rank() == 1);
    CHECK(std::string{e.what()} == "rank 1: index 7");
    CHECK_THROWS_AS(std::rethrow_if_nested(e), std::out_of_range);
    CHECK_THROWS_WITH(std::rethrow_if_nested(e), "index 7");
  }
}

TEST_CASE("launch nests an object that is not a std::exception in RankFailed, too")
{
  try
  {
    throw_on_rank_1(42);
    FAIL("nothing was thrown");
  }
  catch (const RankFailed& e)
  {
    CHECK(e.rank() == 1);
    CHECK(mentions(e.what(), "rank 1", "not a std::exception", "throw a cubist::Error instead"));
    CHECK_THROWS_AS(std::rethrow_if_nested(e), int);
  }
}

TEST_CASE("rank 0 may throw, and so may the only rank")
{
  const int ranks = GENERATE(1, 3);
  const auto text = message_of<DataError>([&] {
    launch<Threads>({.ranks = ranks}, [](World& world) {
      if (world.rank() == 0) throw DataError{"no file"};
      world.barrier();
    });
  });
  CHECK(text == "rank 0: no file");
}

TEST_CASE("of several errors, launch rethrows one that is not a consequence of another")
{
  const Watchdog watchdog;
  for (int run = 0; run < 40; ++run)
  {
    const auto text = message_of<Error>([&] {
      launch<Threads>({.ranks = 4}, [&](World& world) {
        if (world.rank() >= 2) throw ShapeError{"cause " + std::to_string(world.rank())};
        world.barrier();
      });
    });
    REQUIRE((text == "rank 2: cause 2" || text == "rank 3: cause 3"));
  }
}

TEST_CASE("an error does not affect the next launch")
{
  CHECK_THROWS_AS(throw_on_rank_1(DataError{"x"}), DataError);
  const auto sums = on_ranks<Threads>(3, [](World& world) {
    std::vector<int> x{world.rank()};
    world.all_reduce(x);
    return x[0];
  });
  CHECK(sums == std::vector<int>{3, 3, 3});
}

TEST_CASE("a launch may run inside a rank of another one")
{
  const auto sums = on_ranks<Threads>(2, [](World& world) {
    const auto inner = on_ranks<Threads>(3, [&](World& within) {
      std::vector<int> x{10 * world.rank() + within.rank()};
      within.all_reduce(x);
      return x[0];
    });
    std::vector<int> x{inner[0]};
    world.all_reduce(x);
    return x[0];
  });
  CHECK(sums == std::vector<int>{36, 36});
}

TEST_CASE("the BLAS of each rank has a share of the machine's cores")
{
  if (blas_threads() != 0)
  {
    const int before = blas_threads();
    const int cores = static_cast<int>(std::thread::hardware_concurrency());
    for (const int ranks : {1, 2, 5})
    {
      const auto seen = on_ranks<Threads>(ranks, [](World&) { return blas_threads(); });
      for (const int threads : seen) CHECK(threads == std::max(1, cores / ranks));
    }
    CHECK(blas_threads() == before);
  }
}

TEST_CASE("two launches at once restore the threads of BLAS when the last one ends")
{
  const int before = blas_threads();
  std::promise<void> first_began;
  std::promise<void> second_began;
  std::promise<void> first_ended;
  const auto launch_on_two = [](auto body) {
    launch<Threads>({.ranks = 2}, [&](World& world) {
      if (world.rank() == 0) body();
    });
  };
  std::thread first{[&] {
    launch_on_two([&] {
      first_began.set_value();
      second_began.get_future().wait();
    });
    first_ended.set_value();
  }};
  first_began.get_future().wait();
  CHECK_THROWS_AS(launch_on_two([&] {
                    second_began.set_value();
                    first_ended.get_future().wait();
                    throw DataError{"the second one ends by an error"};
                  }),
                  DataError);
  first.join();
  CHECK(blas_threads() == before);
}

/// Calls a function at the end of its scope.
template <class F>
struct OnExit
{
  explicit OnExit(F f)
      : at_exit{f}
  {
  }
  OnExit(const OnExit&) = delete;
  OnExit& operator=(const OnExit&) = delete;
  ~OnExit() { at_exit(); }
  F at_exit;
};

TEST_CASE("launch throws at the time limit, naming the rank that waited and those that are late")
{
  const Watchdog watchdog;
  using namespace std::chrono_literals;
  std::atomic<bool> released{false};
  const auto text = message_of<TimeLimitError>([&] {
    launch<Threads>({.ranks = 3, .time_limit = 400ms}, [&](World& world) {
      world.barrier();
      if (world.rank() == 1)
        while (!released) std::this_thread::sleep_for(1ms);
      const OnExit release{[&] { released = true; }};
      world.barrier();
    });
  });
  CHECK(mentions(text, "waited for 400 ms in barrier on ranks {0, 1, 2}, which ranks {1} have not",
                 "rank 1 is not waiting"));
  CHECK((text.starts_with("rank 0: ") || text.starts_with("rank 2: ")));
}

TEST_CASE("launch waits for ranks that do not return, and prints which")
{
  const Watchdog watchdog;
  using namespace std::chrono_literals;
  std::FILE* const printed = std::tmpfile();
  REQUIRE(printed != nullptr);
  const int before = dup(STDERR_FILENO);
  dup2(fileno(printed), STDERR_FILENO);
  const auto text = message_of<DataError>([&] {
    launch<Threads>({.ranks = 3, .time_limit = 200ms}, [&](World& world) {
      if (world.rank() == 2) throw DataError{"no file"};
      if (world.rank() == 0) return world.barrier();
      while (std::ftell(printed) == 0 && std::fseek(printed, 0, SEEK_END) == 0)
        std::this_thread::sleep_for(1ms);
    });
  });
  dup2(before, STDERR_FILENO);
  close(before);
  CHECK(text == "rank 2: no file");
  std::rewind(printed);
  char line[1000] = "";
  REQUIRE(std::fgets(line, sizeof line, printed) != nullptr);
  std::fclose(printed);
  CHECK(mentions(line, "cubist: rank 2 failed (no file)",
                 "; launch still waits for ranks {1} to return\n"));
}

TEST_CASE("a time limit must be positive, and may be longer than clocks can count")
{
  using namespace std::chrono_literals;
  for (const auto limit : {0ms, -5ms})
  {
    const auto text = message_of<ArgumentError>(
        [&] { launch<Threads>({.ranks = 2, .time_limit = limit}, [](World&) {}); });
    CHECK(mentions(text, "got a time limit of " + std::to_string(limit.count()) + " ms",
                   "give a longer one"));
  }
  int sum = 0;
  launch<Threads>({.ranks = 2, .time_limit = std::chrono::milliseconds::max()}, [&](World& world) {
    std::vector<int> x{1};
    world.all_reduce(x);
    if (world.rank() == 0) sum = x[0];
  });
  CHECK(sum == 2);
}

TEST_CASE("calls on communicators whose launch has returned are errors")
{
  const int ranks = GENERATE(1, 3);
  const auto refused = [](auto call) {
    return mentions(message_of<CommunicationError>(call), "launch has returned",
                    "inside the body of launch");
  };
  std::optional<World> kept;
  std::optional<World> half;
  std::optional<ThreadsRequest> request;
  std::vector<int> sum{1};
  launch<Threads>({.ranks = ranks}, [&](World& world) {
    auto split = world.split(world.rank() % 2, 0);
    if (world.rank() == ranks - 1) kept = world, half = split;
    auto last = world.async_barrier();
    if (world.rank() == ranks - 1)
      request = std::move(last);
    else
      last.wait();
  });
  CHECK(kept->size() == ranks);
  CHECK(refused([&] { kept->barrier(); }));
  CHECK(refused([&] { half->all_reduce(sum); }));
  CHECK(refused([&] { kept->send(sum, 0); }));
  CHECK(refused([&] { (void)kept->split(0, 0); }));
  CHECK(refused([&] { request->wait(); }));
  CHECK(sum[0] == 1);
}

}  // namespace cubist::test::backend_threads_test
