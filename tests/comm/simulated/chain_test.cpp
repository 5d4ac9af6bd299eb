// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/comm/simulated/chain.hpp"

#include "catch.hpp"

namespace cubist::test::comm_simulated_chain_test
{

using World = SimulatedCommunicator;

/// A machine on which each rank is a node. Messages take 1 s, and then 8 bytes a second; segments
/// have 16 bytes.
static Machine chain_machine()
{
  Machine machine;
  machine.cores = 1;
  machine.segment_bytes = 16;
  machine.memory_bandwidth = 8;
  machine.links = {{.name = "memory", .ranks = 1, .bandwidth = 8, .overlaps = false},
                   {.name = "network", .latency = 1, .bandwidth = 8}};
  return machine;
}

/// The time on each rank's clock after a call on 64 bytes, before which rank r computes for late[r]
/// seconds.
template <class Call>
std::vector<double> clocks_of(const std::vector<std::size_t>& late, Call call)
{
  Simulated::machine = chain_machine();
  launch<Simulated>({.ranks = int(late.size())}, [&](World& world) {
    const SimulatedEngine engine;
    const std::size_t seconds = late[static_cast<std::size_t>(world.rank())];
    SimulatedBuffer<float> other(2 * seconds);
    engine.fill(MatrixView<float>{other.data(), {1, 2 * seconds}}, 0.F);
    SimulatedBuffer<float> block(16);
    SimulatedBuffer<float> sum(16);
    call(world, std::span{block.data(), block.size()}, std::span{sum.data(), sum.size()});
  });
  Simulated::machine = {};
  std::vector<double> clocks;
  for (const auto& r : Simulated::report().ranks) clocks.push_back(r.seconds);
  return clocks;
}

const auto broadcast_from_1 = [](World& world, auto block, auto) { world.broadcast(block, 1); };
const auto reduce_to_0 = [](World& world, auto block, auto sum) { world.reduce(block, sum, 0); };

TEST_CASE("simulated chain: segments are forwarded while others arrive")
{
  // The first rank sends for 8 s. Each edge adds 1 s, and 2 s for the segment that it forwards.
  CHECK(clocks_of({0, 0, 0, 0}, broadcast_from_1) == std::vector<double>{15, 0, 9, 12});
  CHECK(clocks_of({0, 0, 0, 0}, reduce_to_0) == std::vector<double>{15, 0, 9, 12});
}

TEST_CASE("simulated chain: a late rank delays only those after it")
{
  CHECK(clocks_of({0, 0, 0, 20}, broadcast_from_1) == std::vector<double>{29, 0, 9, 20});
  CHECK(clocks_of({0, 0, 20, 0}, broadcast_from_1) == std::vector<double>{32, 0, 20, 29});
  CHECK(clocks_of({20, 0, 0, 0}, broadcast_from_1) == std::vector<double>{20, 0, 9, 12});
  CHECK(clocks_of({0, 20, 0, 0}, broadcast_from_1) == std::vector<double>{35, 20, 29, 32});
}

TEST_CASE("simulated chain: one message is forwarded when all of it has arrived")
{
  const auto short_broadcast = [](World& world, auto block, auto) {
    world.broadcast(block.first(4), 1);
  };
  CHECK(clocks_of({0, 0, 0, 0}, short_broadcast) == std::vector<double>{9, 0, 3, 6});
  const auto nothing = [](World& world, auto block, auto) { world.broadcast(block.first(0), 1); };
  CHECK(clocks_of({0, 0, 0, 0}, nothing) == std::vector<double>{3, 0, 1, 2});
}

TEST_CASE("simulated chain: an edge ends after the one before it, however slow that is")
{
  // A message of rank 1 begins first, and occupies its link for 8 s.
  const auto body = [](World& world, auto block, auto sum) {
    if (world.rank() == 1) world.send(sum, 3);
    if (world.rank() == 3) world.receive(sum, 1);
    world.broadcast(block, 1);
  };
  CHECK(clocks_of({0, 0, 0, 0}, body) == std::vector<double>{23, 0, 17, 20});
}

}  // namespace cubist::test::comm_simulated_chain_test
