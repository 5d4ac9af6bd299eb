// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "machine_scope.hpp"
#include "ranks.hpp"

// Tests that a launch in which one replica stands for all takes the time of the whole launch, to
// the last bit.

namespace cubist::test::backend_simulated_folding_test
{

using P = Pipeline<DataParallel<Summa2D>>;
using Extents = P::Axes::Array;  // stages, replicas, rows and columns of a mesh

/// Nodes with this many ranks, with links inside a node, such as NVLink, or without.
static Machine cluster(int ranks_per_node, bool has_links)
{
  Machine machine;
  machine.cores = ranks_per_node;
  machine.shared_memory = !has_links;
  if (has_links) machine.algorithms = CollectiveAlgorithms::nccl;
  machine.links = {{.name = "inside",
                    .ranks = ranks_per_node,
                    .latency = 3e-6,
                    .bandwidth = 2e10,
                    .overlaps = has_links},
                   {.name = "across", .latency = 5e-6, .bandwidth = 4e9, .rank_bandwidth = 7e8}};
  return machine;
}

/// Takes two steps of an MLP in each stage, which sends its output and gradients to its neighbours.
template <class World>
void train(World& world, const Extents& extents)
{
  using D = P::StageScheme;
  const AxisMesh<P::Axes, Simulated> mesh{world, extents, P::quantum(extents)};
  const auto stage_mesh = make_stage_mesh(mesh);
  auto& stages = mesh.template along<PipelineStage>();
  const int stage = stages.rank();
  const std::vector<std::size_t> sizes(3, 240);
  MLP<D, Simulated, float> mlp{stage_mesh, sizes, {.activation = gelu}};
  AdamW optimizer{mlp.parameters()};
  // All replicas have the same number of rows.
  const auto rows = 8 * static_cast<std::size_t>(extents[1] * extents[2] * extents[3]);
  typename MLP<D, Simulated, float>::Input x{stage_mesh, {rows, 240}};
  const auto dy = mlp.forward(x);
  SimulatedBuffer<float> in(8 * 240);
  SimulatedBuffer<float> out(8 * 240);
  const auto received = std::span{in.data(), in.size()};
  const auto sent = std::span{out.data(), out.size()};
  for (int micro_batch = 0; micro_batch < 4; ++micro_batch)
  {
    if (stage > 0) stages.receive(received, stage - 1);
    mlp.forward(x);
    if (stage + 1 < stages.size())
    {
      auto request = stages.async_send(sent, stage + 1);
      stages.receive(received, stage + 1);
      request.wait();
    }
    mlp.backward(dy);
    if (stage > 0) stages.send(sent, stage - 1);
    if (micro_batch % 2 == 1) optimizer.step(mlp.parameters());
  }
}

/// Simulates all replicas, or folds them.
static SimulationReport report_of(const Machine& machine, const Extents& extents, bool folds)
{
  const MachineScope scope{machine};
  if (folds) Simulated::options.replicas = replicas_of<P>(extents);
  Simulated::options.replicas.messages = false;
  launch<Simulated>({.ranks = P::Axes::ranks(extents), .rethrow = true},
                    [&](auto& world) { train(world, extents); });
  Simulated::options = {};
  return Simulated::report();
}

/// The name of the first figure in which two reports differ; empty if there is none.
static std::string difference(const SimulationReport& a, const SimulationReport& b)
{
  if (a.ranks.size() != b.ranks.size()) return "ranks";
  for (std::size_t r = 0; r < a.ranks.size(); ++r)
  {
    const auto& x = a.ranks[r];
    const auto& y = b.ranks[r];
    const auto differ = [&](const char* figure, auto mine, auto its) {
      std::ostringstream text;
      text << figure << " of rank " << r << ": " << mine << ", " << its << ", " << mine - its;
      return text.str();
    };
    if (x.seconds != y.seconds) return differ("seconds", x.seconds, y.seconds);
    if (x.waits != y.waits) return differ("waits", x.waits, y.waits);
    if (x.products != y.products) return differ("products", x.products, y.products);
    if (x.passes != y.passes) return differ("passes", x.passes, y.passes);
    if (x.copies != y.copies) return differ("copies", x.copies, y.copies);
    if (x.peak_memory != y.peak_memory) return differ("memory", x.peak_memory, y.peak_memory);
    for (std::size_t c = 0; c < call_kind_count; ++c)
      if (const auto kind = static_cast<CallKind>(c);
          x.traffic[kind].messages != y.traffic[kind].messages)
        return differ(to_string(kind), x.traffic[kind].messages, y.traffic[kind].messages);
  }
  return {};
}

TEST_CASE("simulated: folded replicas take the time of all, to the last bit")
{
  std::vector<Extents> meshes = {{1, 2, 1, 1}, {1, 4, 1, 2}, {1, 3, 2, 2}, {2, 2, 1, 1},
                                 {2, 4, 1, 2}, {2, 2, 2, 2}, {3, 4, 2, 1}, {1, 4, 4, 2},
                                 {2, 8, 1, 1}, {4, 2, 2, 2}, {1, 8, 2, 4}, {2, 4, 4, 2}};
  if (!quick)
    meshes.insert(meshes.end(), {{1, 16, 1, 4},
                                 {2, 8, 2, 4},
                                 {4, 8, 1, 4},
                                 {1, 8, 4, 4},
                                 {8, 4, 2, 2},
                                 {1, 32, 2, 4},
                                 {2, 16, 4, 2},
                                 {4, 4, 4, 4},
                                 {2, 32, 2, 4},
                                 {4, 16, 2, 4}});
  for (const bool has_links : {true, false})
    for (const int node : {1, 4, 8})
      for (const auto& extents : meshes)
      {
        if (P::Axes::ranks(extents) > 64 && node != 8) continue;
        CAPTURE(has_links, node, extents);
        const auto machine = cluster(node, has_links);
        const auto whole = report_of(machine, extents, false);
        CHECK(difference(report_of(machine, extents, true), whole) == "");
        CHECK(whole.folding.empty());
      }
}

TEST_CASE("simulated: values in host memory are exchanged as if replicas sent the same")
{
  Simulated::options.replicas = {1, 4, 2};
  const auto sums = on_ranks<Simulated>(8, [](auto& world) {
    std::array<int, 2> mine{world.rank() % 2, 1};
    world.all_reduce(mine);
    std::array<int, 8> all{};
    const std::array<int, 1> one{world.rank() % 2};
    world.all_gather(one, all);
    return std::pair{mine, all};
  });
  CHECK(Simulated::report().folding == "1 of 4 equal replicas is simulated");
  for (const std::size_t rank : {0U, 1U})
  {
    CHECK(sums[rank].first == std::array{4, 8});
    CHECK(sums[rank].second == std::array{0, 1, 0, 1, 0, 1, 0, 1});
  }
  Simulated::options = {};
}

TEST_CASE("simulated: a message between replicas stands for those of all")
{
  // Each rank sends to the corresponding rank of the next replica.
  const auto seconds = [](const Replicas& replicas) {
    Simulated::machine = cluster(2, true);
    Simulated::options.replicas = replicas;
    launch<Simulated>({.ranks = 8, .rethrow = true}, [](auto& world) {
      SimulatedBuffer<float> out(world.rank() % 2 == 0 ? 1000 : 2000);
      SimulatedBuffer<float> in(out.size());
      auto received = world.async_receive(std::span{in.data(), in.size()}, (world.rank() + 6) % 8);
      world.send(std::span{out.data(), out.size()}, (world.rank() + 2) % 8);
      received.wait();
    });
    Simulated::machine = {};
    Simulated::options = {};
    return Simulated::report().seconds();
  };
  CHECK(seconds({1, 4, 2}) == seconds({}));
}

TEST_CASE("simulated: calls in which replicas differ are refused where they are folded")
{
  Simulated::options.replicas = {1, 4, 2};
  const auto error_of = [](auto body) -> std::string {
    try
    {
      launch<Simulated>({.ranks = 8, .rethrow = true}, body);
    }
    catch (const std::exception& e)
    {
      return e.what();
    }
    return {};
  };
  CHECK(mentions(error_of([](auto& world) {
                   std::array<int, 1> x{};
                   world.broadcast(x, 0);
                 }),
                 "got a broadcast along folded ranks, one of which stands for the others"));
  CHECK(mentions(error_of([](auto& world) { (void)world.split(world.rank() / 2, 0); }),
                 "got a split by the colours that ranks pass"));
  CHECK(mentions(error_of([](auto& world) {
                   std::array<int, 8> x{};
                   std::array<int, 8> y{};
                   world.all_to_all(x, y);
                 }),
                 "of host memory along folded ranks"));
  Simulated::options = {};
}

}  // namespace cubist::test::backend_simulated_folding_test

#endif
