// SPDX-License-Identifier: BSD-3-Clause
#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "ranks.hpp"
#include "watchdog.hpp"

namespace cubist::test::backend_simulated_test
{

using World = SimulatedCommunicator;

/// A machine with round figures: links have a latency of 1 s and carry 8 bytes a second.
static Machine slow_machine(int ranks_per_node, double cores)
{
  Machine machine;
  machine.cores = cores;
  machine.memory_bandwidth = 8;
  machine.segment_bytes = 1e9;
  machine.links = {{.name = "memory", .ranks = ranks_per_node, .bandwidth = 8, .overlaps = false},
                   {.name = "network", .latency = 1, .bandwidth = 8}};
  machine.rates = {{"float", RateTable::constant(8)}};
  return machine;
}

/// The time on each rank's clock at the end of a body.
template <class Body>
std::vector<double> clocks(const Machine& machine, int ranks, Body body)
{
  Simulated::machine = machine;
  launch<Simulated>({.ranks = ranks}, body);
  Simulated::machine = {};
  std::vector<double> seconds;
  for (const auto& r : Simulated::report().ranks) seconds.push_back(r.seconds);
  return seconds;
}

TEST_CASE("simulated: a message takes latency and bytes by bandwidth")
{
  const auto seconds = clocks(slow_machine(1, 1), 2, [](World& world) {
    std::vector<float> data(10);
    if (world.rank() == 0)
      world.send(data, 1);
    else
      world.receive(data, 0);
  });
  CHECK(seconds == std::vector{6.0, 6.0});
}

TEST_CASE("simulated: a call begins when its last rank has arrived")
{
  const auto seconds = clocks(slow_machine(1, 1), 3, [](World& world) {
    const SimulatedEngine engine;
    SimulatedBuffer<float> buffer(20);
    if (world.rank() == 1) engine.fill(MatrixView<float>{buffer.data(), {4, 5}}, 0.F);
    world.barrier();
  });
  // The rank fills for 10 s, then there are two rounds of messages.
  CHECK(seconds == std::vector{12.0, 12.0, 12.0});
  CHECK(Simulated::report().ranks[0].waits == 12);
  CHECK(Simulated::report().ranks[1].passes == 10);
}

TEST_CASE("simulated: communication overlaps with computation as program and options let it")
{
  const auto seconds = [](bool wait_first, bool overlap) {
    Simulated::options.overlap = overlap;
    const auto all = clocks(slow_machine(1, 1), 2, [&](World& world) {
      const SimulatedEngine engine;
      SimulatedBuffer<float> data(16);
      SimulatedBuffer<float> other(10);
      auto request = world.async_broadcast(std::span{data.data(), data.size()}, 0);
      if (wait_first) request.wait();
      engine.fill(MatrixView<float>{other.data(), {1, 10}}, 0.F);
      request.wait();
    });
    Simulated::options = {};
    return all;
  };
  // The broadcast takes 1 + 8 s, and the computation 5 s. The root's messages are buffered.
  CHECK(seconds(false, true) == std::vector<double>{5, 9});
  CHECK(seconds(true, true) == std::vector<double>{5, 14});
  CHECK(seconds(false, false) == std::vector<double>{5, 14});
}

TEST_CASE("simulated: messages between nodes leave before their receivers wait for them")
{
  const auto body = [](World& world) {
    const SimulatedEngine engine;
    SimulatedBuffer<float> data(16);
    SimulatedBuffer<float> other(40);
    const auto compute = [&] { engine.fill(MatrixView<float>{other.data(), {1, 40}}, 0.F); };
    const auto view = std::span{data.data(), data.size()};
    // The last rank of the chain computes for 20 s, while the messages arrive.
    if (world.rank() == 2) compute();
    world.broadcast(view, 0);
    // The reduction's root computes, too.
    if (world.rank() == 0) compute();
    SimulatedBuffer<float> sum(16);
    world.reduce(view, std::span{sum.data(), sum.size()}, 0);
  };
  // A block takes 1 + 8 s on each edge, and arrives at rank 2 after 18 s. The sum leaves rank 1
  // then, rank 2 at 26 s, and arrives at 35 s.
  CHECK(clocks(slow_machine(1, 1), 3, body) == std::vector<double>{35, 9, 26});
  auto machine = slow_machine(1, 1);
  machine.algorithms = CollectiveAlgorithms::nccl;
  CHECK(clocks(machine, 3, body) == std::vector<double>(3, 60));
}

TEST_CASE("simulated: transfers share the link of their node")
{
  auto machine = slow_machine(2, 2);
  const auto body = [](World& world) {
    std::vector<float> data(16);
    // Rank 0 sends to 2, and rank 1 to 3, on the other node.
    if (world.rank() < 2)
      world.send(data, world.rank() + 2);
    else
      world.receive(data, world.rank() - 2);
  };
  CHECK(clocks(machine, 4, body) == std::vector<double>{9, 17, 9, 17});
  machine.links[1].bandwidth = 16;
  machine.links[1].rank_bandwidth = 8;
  CHECK(clocks(machine, 4, body) == std::vector<double>(4, 1 + 8));
}

TEST_CASE("simulated: ranks of a node copy what they receive when they wait")
{
  const auto seconds = clocks(slow_machine(2, 2), 2, [](World& world) {
    std::vector<float> data(16);
    auto request = world.async_broadcast(data, 0);
    request.wait();
  });
  CHECK(seconds == std::vector{0.0, 8.0});
  CHECK(Simulated::report().ranks[1].copies == 8);
}

/// A training step, written as in a program for any backend.
template <class S, class B, class World>
double train(World& world, std::size_t tokens, const std::vector<std::size_t>& sizes)
{
  const Mesh<S, B> mesh{world};
  MLP<S, B, float> mlp{mesh, sizes, {.activation = gelu}};
  AdamW optimizer{mlp.parameters(), {}};
  DistMatrix<float, typename S::Input, AxisMesh<typename S::Axes, B>> x{mesh,
                                                                        {tokens, sizes.front()}};
  auto y = mlp.forward(x);
  auto target = y;
  double loss = 0;
  for (int step = 0; step < 2; ++step)
  {
    const auto& out = mlp.forward(x);
    auto d = out;
    loss = mean_squared_error(out, target, d);
    mlp.backward(d);
    optimizer.step(mlp.parameters());
  }
  return loss;
}

TEST_CASE("simulated: programs run unchanged, with a loss of 0")
{
  const auto losses = on_ranks<Simulated>(8, [](World& world) {
    return train<Summa25D, Simulated>(world, 64, {32, 128, 16});
  });
  for (const double loss : losses) CHECK(loss == 0);
  for (const auto& r : Simulated::report().ranks)
  {
    CHECK(r.products > 0);
    CHECK(r.passes > 0);
    CHECK(r.peak_memory > 0);
    CHECK(r.seconds == Approx(r.products + r.passes + r.copies + r.waits));
  }
  // On other backends, the mean over no row is a NaN.
  const auto of_none = on_ranks<Simulated>(2, [](World& world) {
    const Mesh<Summa25D, Simulated> mesh{world, {.q = 1, .d = 2}};
    const DistMatrix<float, Summa25D::Output, Mesh<Summa25D, Simulated>> y{mesh, {4, 3}};
    auto dy = y;
    const std::vector<int> ignored(4, ignored_label);
    const double loss = softmax_cross_entropy(y, ignored, dy);
    return loss == 0 && accuracy(y, ignored) == 0;
  });
  for (const bool is_zero : of_none) CHECK(is_zero);
}

TEST_CASE("simulated: a result has the same bits on every run")
{
  Machine machine;
  machine.links.front().ranks = 4;
  machine.links[1].core_seconds_per_byte = 1e-10;
  machine.cores = 2;
  std::vector<double> first;
  for (int i = 0; i < 3; ++i)
  {
    const auto seconds = clocks(machine, 27, [](World& world) {
      train<Cube3D, Simulated>(world, 500, {300, 400, 300});
    });
    if (i == 0) first = seconds;
    CHECK(seconds == first);
  }
  CHECK(first.front() > 0);
}

TEST_CASE("simulated: an error of a rank ends the launch, with its rank")
{
  CHECK_THROWS_WITH(launch<Simulated>({.ranks = 3},
                                      [](World& world) {
                                        if (world.rank() == 1) throw ShapeError{"wrong"};
                                        world.barrier();
                                      }),
                    Catch::Matchers::ContainsSubstring("rank 1") &&
                        Catch::Matchers::ContainsSubstring("wrong"));
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 2},
                                    [](World& world) {
                                      if (world.rank() == 1) throw std::runtime_error{"no"};
                                    }),
                  RankFailed);
}

TEST_CASE("simulated: a deadlock and different calls are errors")
{
  const Watchdog watchdog;
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 3},
                                    [](World& world) {
                                      if (world.rank() != 2) world.barrier();
                                    }),
                  DeadlockError);
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 2},
                                    [](World& world) {
                                      std::vector<float> x(world.rank() == 0 ? 3 : 4);
                                      world.all_reduce(x);
                                    }),
                  CollectiveMismatch);
}

TEST_CASE("simulated: a request that is dropped fails those that wait for it")
{
  const Watchdog watchdog;
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 2},
                                    [](World& world) {
                                      std::vector<float> x(3);
                                      if (world.rank() == 0)
                                        (void)world.async_all_reduce(x);
                                      else
                                        world.all_reduce(x);
                                    }),
                  PeerFailed);
}

TEST_CASE("simulated: impossible numbers of ranks are refused")
{
  const auto nothing = [](World&) {};
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 0}, nothing), ArgumentError);
  CHECK_THROWS_AS(launch<Simulated>({.ranks = 1 << 20}, nothing), ArgumentError);
  CHECK_THROWS_AS(Simulated::now(), ArgumentError);
  CHECK_THROWS_AS(Simulated::rank_report(), ArgumentError);
}

}  // namespace cubist::test::backend_simulated_test
