// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "cubist/backend/simulated.hpp"
#include "cubist/nn/networks/pipelined_mlp.hpp"

#include "catch.hpp"
#include "nn.hpp"

// The real schedule in simulated time: how long stages wait for one another.

namespace backend_simulated_pipeline_test
{

using namespace cubist;
using namespace cubist::test;

namespace
{

/// Restores what is simulated.
class MachineScope
{
 public:
  explicit MachineScope(Machine machine) : former_{std::exchange(Simulated::machine, machine)} {}
  MachineScope(const MachineScope&) = delete;
  MachineScope& operator=(const MachineScope&) = delete;
  ~MachineScope() { Simulated::machine = former_; }

 private:
  Machine former_;
};

/// Nodes of one core, on links that take no time.
Machine free_links()
{
  Machine m{.name = "free links", .cores = 1, .memory_bandwidth = 1e15};
  m.links = {{.name = "memory", .ranks = 1, .latency = 1e-12, .bandwidth = 1e18},
             {.name = "network", .latency = 1e-12, .bandwidth = 1e18}};
  return m;
}

/// The seconds of a step of 32 equal layers.
double seconds_of(int stages, const PipelineOptions& pipeline)
{
  using P = Pipeline<Summa2D>;
  const auto seconds = on_ranks<Simulated>(stages, [&](Simulated::Communicator& world) {
    const Mesh<P, Simulated> mesh{world, {.stages = stages}};
    const std::vector<std::size_t> sizes(33, 256);
    MLP<P, Simulated, float> mlp{mesh, sizes, {.pipeline = pipeline}};
    const MLP<P, Simulated, float>::Input x{mesh, {64 * pipeline.micro_batches, 256}};
    const std::vector<int> labels(x.rows(), 1);
    world.barrier();
    const double begin = Simulated::now();
    (void)mlp.compute_gradients(x, labels);
    return Simulated::now() - begin;
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

/// The part of a step in which stages wait.
double bubble(int stages, const PipelineOptions& pipeline)
{
  const double work = seconds_of(1, {.micro_batches = pipeline.micro_batches}) / stages;
  return 1 - work / seconds_of(stages, pipeline);
}

}  // namespace

TEST_CASE("simulated: the bubble of a pipeline is that of the formula")
{
  const MachineScope machine{free_links()};
  // The first layer computes no dX, so the first stage has a little less work than the others; with
  // two stages this is more than 5 % of a small bubble.
  const int stages = 4;
  for (const std::size_t m : {4U, 8U, 16U})
  {
    CAPTURE(m);
    const double p = stages - 1;
    CHECK(bubble(stages, {.micro_batches = m}) ==
          Approx(p / (p + static_cast<double>(m))).epsilon(0.05));
  }
}

TEST_CASE("simulated: two pieces of layers for each stage halve the bubble")
{
  const MachineScope machine{free_links()};
  CHECK(bubble(4, {.micro_batches = 8, .pieces = 2}) == Approx(3.0 / (2 * 8 + 3)).epsilon(0.08));
  CHECK(bubble(4, {.micro_batches = 8, .pieces = 2}) < 0.7 * bubble(4, {.micro_batches = 8}));
}

}  // namespace backend_simulated_pipeline_test

#endif
