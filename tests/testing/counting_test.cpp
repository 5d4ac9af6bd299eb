// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/threads.hpp"
#include "cubist/testing/counting.hpp"

#include "conformance.hpp"
#include "watchdog.hpp"

namespace cubist::test::testing_counting_test
{

// traffic_test.cpp tests what is counted.

TEST_CASE("a counting backend has the engine and the launch of the decorated one")
{
  using B = Counting<Threads>;
  STATIC_REQUIRE(BackendType<B>);
  STATIC_REQUIRE(BackendType<Counting<B>>);
  STATIC_REQUIRE(std::same_as<B::Engine, Threads::Engine>);
  const auto sizes = on_ranks<B>(3, [](B::Communicator& world) { return world.size(); });
  CHECK(sizes == std::vector<int>{3, 3, 3});
  CHECK_THROWS_AS(launch<B>({.ranks = 0}, [](auto&) {}), ArgumentError);
}

TEST_CASE("every rank of every launch has its own counters")
{
  for (int run = 0; run < 2; ++run)
  {
    const auto sent = on_ranks<Counting<Threads>>(3, [](auto& world) {
      world.broadcast(std::vector<float>(10), 0);
      return world.traffic().total().elements;
    });
    CHECK(sent == std::vector<std::uint64_t>{10, 10, 0});
  }
}

TEST_CASE("a counting communicator does not change what ranks receive")
{
  using World = Counting<Threads>::Communicator;
  require_clear(on_ranks<Counting<Threads>>(4, [](World& world) {
    Findings found;
    const auto form = conformance::forms[static_cast<std::size_t>(world.rank()) % 3];
    for (const std::size_t n : {0U, 1U, 600U})
      conformance::EveryCollective<World, double>{world, n, form, found}.run();
    return found;
  }));
  require_clear(
      on_ranks<Counting<Threads>>(6, [](World& world) { return conformance::splits(world); }));
}

TEST_CASE("errors propagate through a counting backend")
{
  const Watchdog watchdog;
  using B = Counting<Threads>;
  std::string peer;
  const auto text = message_of<DataError>([&] {
    launch<B>({.ranks = 2}, [&](auto& world) {
      if (world.rank() == 1) throw DataError{"the file ended"};
      peer = message_of<PeerFailed>([&] { world.barrier(); });
    });
  });
  CHECK(text == "rank 1: the file ended");
  CHECK(mentions(peer, "rank 1 failed (the file ended)"));

  CHECK_THROWS_AS(
      launch<B>({.ranks = 2},
                [](auto& world) { world.all_reduce(std::vector<int>(world.rank() == 0 ? 1 : 2)); }),
      CollectiveMismatch);
  CHECK_THROWS_AS(
      launch<B>({.ranks = 2}, [](auto& world) { world.receive(std::vector<int>(1), 0); }),
      DeadlockError);
}

}  // namespace cubist::test::testing_counting_test
