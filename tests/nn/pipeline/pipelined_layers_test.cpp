// SPDX-License-Identifier: BSD-3-Clause
// Tests that a Sequential of a program's own layers trains in stages as on one rank.

#include "cubist/nn/dense/dense.hpp"
#include "cubist/nn/norm/row_norm.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/nn/pipeline/pipelined_layers.hpp"
#include "cubist/nn/sequential.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test::pipelined_layers_test
{

using B = TestBackend;
using S = Cube3D;
using P = Pipeline<S>;
using Net = PipelinedLayers<P, B, double>;

constexpr std::size_t samples = 12;
constexpr int steps = 6;

// The layers, on a stage's mesh or on one rank's. The second begins in S::Next.

const auto norm_and_up = [](const auto& on) {
  return Sequential{LayerNorm<S, B, double>{on, 7},
                    Dense<S, B, double>{on, 7, 10, {.seed = 1}, gelu}};
};
const auto down = [](const auto& on) {
  return Dense<S::Next, B, double>{on, 10, 7, {.seed = 1, .index = 1}, cubist::tanh};
};
const auto output = [](const auto& on) {
  return Dense<S, B, double>{on, 7, 5, {.seed = 1, .index = 2}};
};

static std::vector<Net::Layer> layers()
{
  return {Net::layer(10, norm_and_up), Net::layer(7, down), Net::layer(5, output)};
}

/// The losses, and the parameters after training, by name.
struct Run
{
  std::vector<double> losses;
  std::vector<std::pair<std::string, Global<double>>> values;
};

template <class M, class F>
Run train(const Parameters<double, M>& parameters, F compute_gradients)
{
  Sgd optimizer{parameters, {.learning_rate = 0.5}};
  Run run;
  for (int step = 0; step < steps; ++step)
  {
    run.losses.push_back(compute_gradients());
    checked_step(optimizer, parameters);
  }
  for (const auto& p : parameters) run.values.emplace_back(p.name, gather(p.value));
  return run;
}

TEST_CASE("a Sequential of the program's layers in stages trains as on one rank")
{
  const Run wanted = on_root(Place<S>{1, {1}}, [](const auto& mesh) {
    Sequential net{norm_and_up(mesh), down(mesh), output(mesh)};
    using Whole = decltype(net);
    const auto gradients = std::make_shared<Gradients<double, typename Whole::Mesh>>(mesh);
    const auto x = scatter<S::Input>(mesh, uniform<double>(samples, 7, 1, 2));
    typename Whole::Kept kept;
    return train(parameters_of(net, gradients), [&] {
      const auto& y = net.forward(x, {}, kept);
      auto dy = zeros_like(y);
      const double loss = softmax_cross_entropy(y, classes(samples, 5), dy);
      auto& reducer = gradients->reducer();
      reducer.begin();
      net.backward(x, dy, {Pass{}, reducer}, kept, false);
      reducer.finish();
      return loss;
    });
  });
  CHECK(wanted.losses.back() < wanted.losses.front());
  const auto check = [&](int ranks, const P::Extents& extents,
                         const PipelinedLayersOptions& options) {
    if (!fits(ranks)) return;
    CAPTURE(ranks, options.recompute, options.pipeline.layers.size());
    const Run run = on_ranks<B>(ranks, [&](typename B::Communicator& world) {
      const Mesh<P, B> mesh{world, extents};
      Net net{mesh, 7, layers(), options};
      const auto x = scatter<P::Input>(mesh, uniform<double>(samples, 7, 1, 2));
      return train(net.parameters(), [&] { return net.compute_gradients(x, classes(samples, 5)); });
    })[0];
    CHECK(deviation(run.losses, wanted.losses) < 1e-13);
    REQUIRE(run.values.size() == wanted.values.size());
    for (std::size_t i = 0; i < run.values.size(); ++i)
    {
      CHECK(run.values[i].first == wanted.values[i].first);
      CHECK(difference(run.values[i].second, wanted.values[i].second) < 1e-13);
    }
  };
  check(3, {3, {1}}, {});
  check(2, {2, {1}}, {.pipeline = {.micro_batches = 4, .layers = {1, 2}}});
  check(2, {2, {1}}, {.recompute = 1, .pipeline = {.micro_batches = 3, .layers = {2, 1}}});
  if (!on_processes<B>) check(16, {2, {2}}, {.pipeline = {.micro_batches = 3}});
}

TEST_CASE(
    "own layers are cut by their parameters, frozen by their names, and refused in other orders")
{
  if (!fits(2)) return;
  const auto found = on_ranks<B>(2, [](typename B::Communicator& world) {
    const Mesh<P, B> mesh{world, {.stages = 2, .scheme = {1}}};
    std::vector<std::string> all;
    // With 94 parameters, then 77 + 40, the first stage gets the first layer.
    Net net{mesh, 7, layers(), {.frozen = {"0.1.*"}}};
    for (const auto& p : net.parameters())
      all.push_back(p.name + (p.value.valid().size() > 0 ? " here" : " elsewhere") +
                    (p.frozen ? ", frozen" : ""));
    all.push_back(message_of<ShapeError>([&] {
      Net wrong{mesh, 7, {Net::layer(10, norm_and_up), Net::layer(5, output)}};
    }));
    all.push_back(message_of<ShapeError>([&] { Net none{mesh, 7, {}}; }));
    all.push_back(message_of<ArgumentError>([&] { Net few{mesh, 7, {Net::layer(5, output)}}; }));
    return all;
  })[0];
  REQUIRE(found.size() == 11);
  CHECK(found[0] == "0.0.weight here");
  CHECK(found[2] == "0.1.weight here, frozen");
  CHECK(found[3] == "0.1.bias here, frozen");
  CHECK(found[4] == "1.weight elsewhere");
  CHECK(found[7] == "2.bias elsewhere");
  CHECK(mentions(found[8], "layer 1", "not cut like the output", "S::Next"));
  CHECK(mentions(found[9], "no layers", "at least one"));
  CHECK(mentions(found[10], "1 layers", "2 stages"));
}

}  // namespace cubist::test::pipelined_layers_test
