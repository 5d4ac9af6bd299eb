// SPDX-License-Identifier: BSD-3-Clause
#include <concepts>
#include <cstdint>
#include <string>
#include <vector>

#include "cubist/backend/threads.hpp"
#include "cubist/testing/counting.hpp"

#include "catch.hpp"
#include "ranks.hpp"

// What is counted is tested in traffic_test.cpp, and that the data stays right in
// communicator_test.cpp.

using namespace cubist;
using namespace cubist::test;

TEST_CASE("a counting backend has the engine and the launch of the one inside")
{
  using B = Counting<Threads>;
  STATIC_REQUIRE(Backend<B>);
  STATIC_REQUIRE(Backend<Counting<B>>);
  STATIC_REQUIRE(std::same_as<B::Engine, Threads::Engine>);
  const auto sizes = on_ranks<B>(3, [](B::Communicator& world) { return world.size(); });
  CHECK(sizes == std::vector<int>{3, 3, 3});
  CHECK_THROWS_AS(launch<B>({.ranks = 0}, [](auto&) {}), ArgumentError);
}

TEST_CASE("every launch and every rank counts on an account of its own")
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

TEST_CASE("failures pass through a counting backend")
{
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
