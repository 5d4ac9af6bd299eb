// SPDX-License-Identifier: BSD-3-Clause
#include "sanitized.hpp"

// One rank runs at a time, so sanitizers find no more here than in simulated_test.cpp.
#if !CUBIST_SANITIZED

#include "cubist/nn/pipeline/pipelined_mlp.hpp"
#include "cubist/trace/traced.hpp"

#include "folder.hpp"
#include "machine_scope.hpp"
#include "machines.hpp"
#include "nn.hpp"

// Runs the real schedule in simulated time: how long stages wait for one another, and the trace.

namespace cubist::test::backend_simulated_pipeline_test
{

/// The seconds of a step with 32 equal layers.
static double seconds_of(int stages, const PipelineOptions& pipeline)
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

/// The fraction of a step in which stages wait.
static double bubble(int stages, const PipelineOptions& pipeline)
{
  const double work = seconds_of(1, {.micro_batches = pipeline.micro_batches}) / stages;
  return 1 - work / seconds_of(stages, pipeline);
}

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

TEST_CASE("a trace of a pipeline shows the layers of each stage, and what goes to the next")
{
  using P = Pipeline<Summa2D>;
  using B = Traced<Simulated>;
  constexpr std::size_t micro_batches = 3;
  const Folder folder;
  const auto file = folder / "trace.json";
  B::options = {.file = file.string()};
  launch<B>({.ranks = 2, .rethrow = true}, [](B::Communicator& world) {
    const Mesh<P, B> mesh{world, {.stages = 2}};
    MLP<P, B, float> mlp{
        mesh, {8, 8, 8, 8, 8}, {.pipeline = {.micro_batches = micro_batches, .layers = {1, 3}}}};
    const MLP<P, B, float>::Input x{mesh, {4 * micro_batches, 8}};
    (void)mlp.compute_gradients(x, std::vector<int>(x.rows(), 1));
  });
  B::options = {};
  std::ifstream in{file};
  std::array<std::vector<std::string>, 2> layers;
  std::array<std::size_t, 2> sent{};
  const auto json = nlohmann::json::parse(in);
  for (const auto& e : json.at("traceEvents"))
  {
    if (e.at("ph") != "X") continue;
    const auto rank = e.at("pid").get<std::size_t>();
    const auto name = e.at("name").get<std::string>();
    if (name.find("of layer") != std::string::npos) layers.at(rank).push_back(name);
    if (e.at("cat") == "communication" && name.starts_with("send"))
      sent.at(rank) += e.at("args").at("elements sent").get<std::size_t>();
  }
  // The first stage runs two forward passes before its first backward pass, the last stage one.
  using Names = std::vector<std::string>;
  const std::string forward = "forward of layer ";
  const std::string backward = "backward of layer ";
  CHECK(layers[0] == Names{forward + "0", forward + "0", backward + "0", forward + "0",
                           backward + "0", backward + "0"});
  Names last;
  for (std::size_t i = 0; i < micro_batches; ++i)
    for (const auto& name : {forward + "1", forward + "2", forward + "3", backward + "3",
                             backward + "2", backward + "1"})
      last.push_back(name);
  CHECK(layers[1] == last);
  CHECK(sent[0] == 12 * 8);
  CHECK(sent[1] == 12 * 8);
}

}  // namespace cubist::test::backend_simulated_pipeline_test

#endif
