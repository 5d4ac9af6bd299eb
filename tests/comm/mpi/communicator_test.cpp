// SPDX-License-Identifier: BSD-3-Clause
#include <fstream>
#include <random>

#include <mpi.h>

#include "cubist/backend/mpi.hpp"
#include "cubist/backend/threads.hpp"
#include "cubist/comm/mpi/communicator.hpp"

#include "conformance.hpp"
#include "job_context.hpp"
#include "watchdog.hpp"

namespace cubist::test::comm_mpi_communicator_test
{

// Tests what a communicator of processes guarantees beyond the guarantees of every communicator,
// which comm/communicator_test.cpp tests.

using World = MpiCommunicator;

/// Sets the options of launches for its lifetime.
struct WithOptions
{
  explicit WithOptions(const MpiOptions& options) { Mpi::options = options; }
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;
  ~WithOptions() { Mpi::options = before; }
  MpiOptions before = Mpi::options;
};

TEST_CASE("collectives work with messages of any length")
{
  const std::size_t longest = GENERATE(1U, 48U, 1000U);
  const WithOptions options{{.remote_message_bytes = longest, .local_message_bytes = longest}};
  CAPTURE(longest);
  require_clear(on_ranks<Mpi>(processes(), [](World& world) {
    Findings found;
    const auto form = conformance::forms[static_cast<std::size_t>(world.rank()) % 3];
    for (const std::size_t n : {0U, 1U, 7U, 150U})
    {
      conformance::EveryCollective<World, std::uint8_t>{world, n, form, found}.run();
      conformance::EveryCollective<World, float>{world, n, form, found}.run();
      conformance::EveryCollective<World, std::complex<double>>{world, n, form, found}.run();
    }
    return found;
  }));
  require_clear(on_ranks<Mpi>(processes(),
                              [](World& world) { return conformance::many_at_once(world, 100); }));
  require_clear(on_ranks<Mpi>(processes(),
                              [](World& world) { return conformance::messages_in_order(world); }));
}

TEST_CASE("without overlap, calls between nodes complete when they start")
{
  const WithOptions options{{.overlap = false}};
  require_clear(on_ranks<Mpi>(processes(), [](World& world) {
    Findings found;
    for (const std::size_t n : {7U, 1000U})
      conformance::EveryCollective<World, double>{world, n, conformance::Form::waited, found}.run();
    return found;
  }));
  require_clear(on_ranks<Mpi>(processes(),
                              [](World& world) { return conformance::messages_in_order(world); }));
  if (processes() > 1)
  {
    const auto text = message_of<Error>([] {
      launch<Mpi>({.rethrow = true}, [](World& world) {
        std::vector<double> x(100'000);
        if (world.rank() == 1) throw DataError{"the file ended"};
        world.async_all_reduce(x).wait();
      });
    });
    CHECK(mentions(text, "the file ended"));
  }
}

TEST_CASE("a communicator is remote if its ranks are on several nodes")
{
  char name[MPI_MAX_PROCESSOR_NAME] = "";
  int length = 0;
  MPI_Get_processor_name(name, &length);
  std::vector<char> names(static_cast<std::size_t>(processes()) * sizeof name);
  MPI_Allgather(name, sizeof name, MPI_CHAR, names.data(), sizeof name, MPI_CHAR, MPI_COMM_WORLD);
  const auto same_node = [&](int rank) {
    return std::strcmp(name, names.data() + static_cast<std::size_t>(rank) * sizeof name) == 0;
  };
  int node_size = 0;
  int first = process();
  for (int r = processes(); r-- > 0;)
    if (same_node(r)) ++node_size, first = r;

  launch<Mpi>({}, [&](World& world) {
    CHECK(world.remote() == (node_size < world.size()));
    CHECK_FALSE(world.split(first, 0).remote());
    CHECK_FALSE(world.split(world.rank(), 0).remote());
  });
}

/// Computes sums whose bits depend on the order of the addends.
template <class C>
std::vector<double> rounded_sums(C& world)
{
  std::mt19937 random{static_cast<unsigned>(world.rank())};
  std::uniform_real_distribution<double> number{-1e6, 1e6};
  std::vector<double> in(37 * static_cast<std::size_t>(world.size()));
  for (double& x : in) x = 1.0 / number(random);
  std::vector<double> out(in);
  world.all_reduce(out);
  std::vector<double> mine(37);
  world.reduce_scatter(in, mine);
  out.insert(out.end(), mine.begin(), mine.end());
  std::vector<double> reduced(in.size());
  world.reduce(in, reduced, world.size() / 2);
  out.insert(out.end(), reduced.begin(), reduced.end());
  return out;
}

TEST_CASE("sums are bit-identical to those on threads")
{
  for (const int ranks : {2, 3, 4, 6, 8})
    if (fits<Mpi>(ranks))
    {
      CAPTURE(ranks);
      const auto sum = [](auto& world) { return rounded_sums(world); };
      CHECK(on_ranks<Mpi>(ranks, sum) == on_ranks<Threads>(ranks, sum));
    }
}

TEST_CASE("requests may be completed in a different order on each rank")
{
  require_clear(on_ranks<Mpi>(processes(), [](World& world) {
    Findings found;
    constexpr std::size_t calls = 24;
    auto half = world.split(world.rank() % 2, 0);
    std::mt19937 random{static_cast<unsigned>(world.rank())};
    for (int round = 0; round < repeats(6, 3); ++round)
    {
      std::array<std::vector<double>, calls> x;
      std::vector<std::pair<std::size_t, MpiRequest>> requests;
      for (std::size_t i = 0; i < calls; ++i)
      {
        World& on = i % 3 == 0 ? half : world;
        x[i].assign(i * 500, i % 2 == 0 || on.rank() == 0 ? 1.0 : 0.0);
        if (i % 2 == 0)
          requests.emplace_back(i, on.async_all_reduce(x[i]));
        else
          requests.emplace_back(i, on.async_broadcast(x[i], 0));
      }
      std::shuffle(requests.begin(), requests.end(), random);
      for (auto& [i, request] : requests)
      {
        if (random() % 2 == 0)
          while (!request.test()) std::this_thread::yield();
        request.wait();
        request.wait();  // has no effect
        const int ranks = i % 3 == 0 ? half.size() : world.size();
        found.check(x[i] == std::vector<double>(i * 500, i % 2 == 0 ? ranks : 1.0), "call ", i);
      }
    }
    return found;
  }));
}

TEST_CASE("requests can be moved and assigned")
{
  require_clear(on_ranks<Mpi>(processes(), [](World& world) {
    Findings found;
    std::vector<int> x{1}, y{2};
    auto first = world.async_all_reduce(x);
    auto second = std::move(first);
    auto third = world.async_all_reduce(y);
    std::swap(second, third);
    second.wait();
    third.wait();
    found.check(x[0] == world.size() && y[0] == 2 * world.size(), "moved requests");
    third = world.async_all_reduce(x);
    third.wait();
    found.check(x[0] == world.size() * world.size(), "an assigned request");
    return found;
  }));
}

TEST_CASE("a request may be dropped once its call is complete")
{
  require_clear(on_ranks<Mpi>(processes(), [](World& world) {
    Findings found;
    std::vector<int> x(10, world.rank());
    {
      auto dropped = world.async_all_reduce(x);
      world.barrier();
      while (!dropped.test()) std::this_thread::yield();
    }
    found.check(x[0] == world.size() * (world.size() - 1) / 2, "all_reduce");
    return found;
  }));
}

TEST_CASE("a communicator may outlive its body")
{
  std::optional<World> kept;
  launch<Mpi>({}, [&](World& world) { kept = world.split(0, 0); });
  launch<Mpi>({}, [](World& world) { world.barrier(); });
  std::vector<int> x{1};
  kept->all_reduce(x);
  CHECK(x[0] == processes());
}

TEST_CASE("a message that is too long for its receiver is an error that names both ranks")
{
  if (processes() < 2) SKIP_TEST("needs 2 processes");
  const auto text = message_of<Error>([] {
    launch<Mpi>({.rethrow = true}, [](World& world) {
      if (world.rank() == 0) world.send(std::vector<int>(20), 1);
      if (world.rank() == 1) world.receive(std::vector<int>(10), 0);
      world.barrier();
    });
  });
  CAPTURE(text);
  CHECK(mentions(text, "receive on rank 1 of " + std::to_string(processes()),
                 text_of_error(MPI_ERR_TRUNCATE), "its data is incomplete",
                 "let all ranks make the same calls"));
  CHECK(mentions(text, process() == 1 ? "rank 1: receive" : "rank 1 failed"));
}

TEST_CASE("ranks that call different collectives get a mismatch, which names both")
{
  const Watchdog watchdog;
  if (processes() != 4) SKIP_TEST("needs 4 processes");
  using V = std::vector<double>;
  struct Pair
  {
    const char* names;
    void (*call)(World&);
    void (*other)(World&);
  };
  std::vector<Pair> pairs{
      {"all_reduce", [](World& w) { w.all_reduce(V(4)); }, [](World& w) { w.barrier(); }},
      {"all_reduce", [](World& w) { w.all_reduce(V(4)); }, [](World& w) { w.all_reduce(V(5)); }},
      {"all_gather", [](World& w) { w.all_gather(V(4), V(16)); },
       [](World& w) { w.all_to_all(V(16), V(16)); }},
      {"broadcast", [](World& w) { w.broadcast(V(4), 0); }, [](World& w) { w.broadcast(V(4), 3); }},
      {"gather", [](World& w) { w.gather(V(4), V(16), 0); },
       [](World& w) { w.gather(V(3), V(12), 0); }},
      {"reduce", [](World& w) { w.reduce(V(4), V(4), 2); },
       [](World& w) { w.reduce(std::vector<float>(8), std::vector<float>(8), 2); }},
  };
  if (one_node())
  {
    pairs.push_back(
        {"split", [](World& w) { w.barrier(); }, [](World& w) { (void)w.split(0, 0); }});
    pairs.push_back({"expose", [](World& w) { w.barrier(); },
                     [](World& w) {
                       const V x(4);
                       auto window = w.expose(x);
                       (void)window[0];
                       window.close();
                       window.wait();
                     }});
  }
  for (const auto& pair : pairs)
  {
    CAPTURE(pair.names);
    const auto text = message_of<CollectiveMismatch>([&] {
      (void)on_ranks<Mpi>(4, [&](World& world) {
        (world.rank() == 2 ? pair.other : pair.call)(world);
        world.barrier();
        return 0;
      });
    });
    CHECK(mentions(text, "rank 2 called", pair.names, "same calls in the same order"));
  }
}

TEST_CASE("a rank that exposes a block of another size gets a mismatch")
{
  const Watchdog watchdog;
  if (processes() != 4 || !one_node()) SKIP_TEST("needs 4 processes on one node");
  const auto text_for = [](std::size_t size, std::size_t of_rank_2) {
    return message_of<CollectiveMismatch>([&] {
      (void)on_ranks<Mpi>(4, [&](World& world) {
        const std::vector<double> x(world.rank() == 2 ? of_rank_2 : size);
        auto window = world.expose(x);
        const double sum = window[2][3];
        window.close();
        window.wait();
        return sum;
      });
    });
  };
  CHECK(mentions(text_for(4000, 5000), "exposed 4000 elements", "exposed 5000", "rank 2",
                 "blocks of the same size"));
  // Small blocks are copied.
  for (const std::size_t other : {5U, 5000U})
    CHECK(mentions(text_for(4, other), "called expose", "rank 2 called", "with a different size"));
}

TEST_CASE("a wait for a rank that is late ends at the limit, and names the rank")
{
  const Watchdog watchdog;
  if (processes() != 4) SKIP_TEST("needs 4 processes");
  using V = std::vector<double>;
  struct Named
  {
    std::string text;
    void (*call)(World&);
  };
  const std::vector<Named> calls{
      {"barrier on ranks {0, 1, 2, 3}", [](World& w) { w.barrier(); }},
      {"all_reduce of 4 double by sum on", [](World& w) { w.all_reduce(V(4)); }},
      {"broadcast of 4 double with root 3", [](World& w) { w.broadcast(V(4), 3); }},
      {"split", [](World& w) { (void)w.split(0, 0); }},
      {"send of 1000000 double",
       [](World& w) { w.rank() == 1 ? w.send(V(1'000'000), 2) : w.barrier(); }},
  };
  for (const auto& call : calls)
  {
    // Open MPI aborts a job that frees memory of a pending send between nodes.
    if (call.text.starts_with("send") && !one_node()) continue;
    CAPTURE(call.text);
    std::string text;
    try
    {
      launch<Mpi>({.rethrow = true, .time_limit = std::chrono::milliseconds{200}},
                  [&](World& world) {
                    auto half = world.split(world.rank() % 2, -world.rank());
                    world.barrier();
                    if (world.rank() == 2)
                      std::this_thread::sleep_for(std::chrono::milliseconds{600});
                    call.call(world);
                    world.barrier();
                  });
    }
    catch (const TimeLimitError& e)
    {
      text = e.what();
      CHECK(process() != 2);
    }
    catch (const PeerFailed& e)
    {
      text = e.what();
    }
    CAPTURE(text);
    // Ranks wait in different calls, and any of them may be the first to report it.
    const bool sends = call.text.starts_with("send");
    const bool in_barrier = mentions(text, "waited for 200 ms in barrier on ranks {0, 1, 2, 3}");
    CHECK(mentions(text, "waited for 200 ms in ",
                   sends && in_barrier ? "nothing received from ranks {1, 2}" : "ranks {2}"));
  }
}

TEST_CASE("a wait ends when another call of its rank needs a rank that has returned")
{
  const Watchdog watchdog;
  if (processes() < 3) SKIP_TEST("needs 3 processes");
  // Ranks 0 and 2 have not returned, and wait for each other. Rank 0 has one more call.
  const auto text = message_of<DeadlockError>([] {
    (void)on_ranks<Mpi>(3, [](World& world) {
      if (world.rank() == 1) return 0;
      std::vector<double> x(4), y(5);
      std::optional<MpiRequest> other;
      if (world.rank() == 0) other.emplace(world.async_receive(y, 1));
      world.receive(x, 2 - world.rank());
      return 0;
    });
  });
  CHECK(mentions(text, "rank 0: called receive of 5 double",
                 "which ranks {1} have not called; ranks {1} have returned"));
}

static std::size_t free_memory()
{
  std::ifstream info{"/proc/meminfo"};
  for (std::string name; info >> name;)
    if (std::size_t kib = 0; name == "MemAvailable:" && info >> kib) return kib * 1024;
  return 0;
}

TEST_CASE("more than 2 GiB can be sent in one call", "[.][large]")
{
  if (processes() < 2) SKIP_TEST("needs 2 processes");
  if (free_memory() < std::size_t{6} << 30) SKIP_TEST("less than 6 GiB of memory are free");
  MPI_Barrier(MPI_COMM_WORLD);
  const auto wrong = on_ranks<Mpi>(2, [](World& world) {
    std::vector<std::uint8_t> x(2'200'000'000);
    const auto byte = [](std::size_t i) {
      return static_cast<std::uint8_t>(i * 7 + i / 1'000'003);
    };
    const auto count_wrong = [&] {
      int n = 0;
      for (std::size_t i = 0; i < x.size(); i += 997) n += x[i] != byte(i);
      return n + (x.back() != byte(x.size() - 1));
    };
    if (world.rank() == 0)
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = byte(i);
    if (world.rank() == 0)
      world.send(x, 1);
    else
      world.receive(x, 0);
    int wrong_bytes = count_wrong();
    if (world.rank() == 1) std::fill(x.begin(), x.end(), std::uint8_t{0});
    world.broadcast(x, 0);
    return wrong_bytes + count_wrong();
  });
  CHECK(wrong == std::vector<int>{0, 0});
}

}  // namespace cubist::test::comm_mpi_communicator_test
