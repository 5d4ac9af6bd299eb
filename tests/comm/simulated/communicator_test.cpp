// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/comm/simulated/communicator.hpp"

#include "conformance.hpp"

namespace cubist::test::comm_simulated_communicator_test
{

using World = SimulatedCommunicator;

/// Nodes with two ranks.
static Machine small_nodes()
{
  Machine machine;
  machine.links.front().ranks = 2;
  return machine;
}

TEST_CASE("data in host memory arrives as by any communicator")
{
  using conformance::Form;
  for (const auto& machine : {Machine{}, small_nodes()})
  {
    Simulated::machine = machine;
    for (const int size : {1, 2, 5})
      require_clear(on_ranks<Simulated>(size, [](World& world) {
        const auto form_of = [](int rank) {
          return conformance::forms[static_cast<std::size_t>(rank) % 3];
        };
        return conformance::every_collective(world, form_of);
      }));
  }
  Simulated::machine = {};
}

TEST_CASE("the report counts what each rank sends, as a counting communicator does")
{
  using Backend = Counting<Simulated>;
  for (const auto& machine : {Machine{}, small_nodes()})
  {
    Simulated::machine = machine;
    const auto counted = on_ranks<Backend>(5, [](Backend::Communicator& world) {
      std::vector<double> mine(60);
      std::vector<double> all(300);
      world.barrier();
      world.broadcast(mine, 3);
      world.all_reduce(mine);
      world.all_gather(mine, all);
      world.reduce_scatter(all, mine);
      auto pair = world.split(world.rank() % 2, world.rank());
      pair.all_reduce(mine);
      if (world.rank() == 0) world.send(mine, 4);
      if (world.rank() == 4) world.receive(mine, 0);
      return world.traffic();
    });
    for (std::size_t r = 0; r < 5; ++r)
      for (std::size_t c = 0; c < call_kind_count; ++c)
      {
        CAPTURE(r, to_string(static_cast<CallKind>(c)));
        const auto& reported = Simulated::report().ranks[r].traffic;
        CHECK(reported[static_cast<CallKind>(c)] == counted[r][static_cast<CallKind>(c)]);
      }
  }
  Simulated::machine = {};
}

TEST_CASE("ranks of a node read each other's blocks, others do not")
{
  Simulated::machine = small_nodes();
  const auto exposes = on_ranks<Simulated>(4, [](World& world) {
    auto node = world.split(world.rank() / 2, world.rank());
    return std::pair{can_expose(world), can_expose(node)};
  });
  for (const auto& [all, node] : exposes)
  {
    CHECK_FALSE(all);
    CHECK(node);
  }
  const auto read = on_ranks<Simulated>(2, [](World& world) {
    const std::array mine{10 * world.rank(), 10 * world.rank() + 1};
    auto window = world.expose(mine);
    const int peer = window[1 - world.rank()][1];
    window.close();
    window.wait();
    return peer;
  });
  CHECK(read == std::vector{11, 1});
  Simulated::machine = {};
}

}  // namespace cubist::test::comm_simulated_communicator_test
