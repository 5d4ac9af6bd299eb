// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/nn/optimizer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "simulate.hpp"

namespace cubist
{

namespace
{

[[nodiscard]] TransformerConfig config_of(const TransformerModel& model, std::size_t layers)
{
  TransformerConfig config;
  config.vocabulary = model.vocabulary;
  config.positions = model.positions;
  config.width = model.width;
  config.layers = layers;
  config.heads = model.heads;
  config.key_value_heads = model.key_value_heads;
  config.feed_forward = model.feed_forward;
  config.learned_positions = !model.rotary;
  config.norm = model.rms_norm ? Norm::rms_norm : Norm::layer_norm;
  config.gated = model.gated;
  config.bias = model.bias;
  config.tied = model.tied;
  return config;
}

/// Seconds of a step of a model with so many layers.
template <class S>
double step_seconds(const Plan& plan, const SimulatedTransformer& what, std::size_t layers)
{
  const TransformerModel& model = what.step.model;
  const TokenBatch batch = what.step.batch;
  // Tokens of all parts of the vocabulary.
  std::vector<int> ids(batch.tokens());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int>((i * i + 7 * i) % model.vocabulary);
  double begin = 0;
  double end = 0;
  launch<Simulated>({.ranks = plan.ranks + plan.idle, .rethrow = true}, [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, plan};
    if (!mesh.active()) return;
    const auto method = plan.method == Method::direct ? Method::automatic : Method::collectives;
    Transformer<S, Simulated, float> network{
        mesh, config_of(model, layers), {.gathered = plan.gathered, .method = method}};
    const auto parameters = network.parameters();
    AdamW optimizer{parameters};
    mesh.world().barrier();
    begin = Simulated::now();
    if (what.training)
    {
      network.compute_gradients(ids, batch.length);
      optimizer.step(parameters);
    }
    else
      static_cast<void>(network.evaluate(ids, batch.length));
    end = std::max(end, Simulated::now());
  });
  return end - begin;
}

}  // namespace

double simulated_seconds(const Plan& plan, const SimulatedTransformer& what,
                         const SimulatedMachine& machine)
{
  Simulated::machine = machine;
  return with_scheme(
      plan.scheme, [&]<class S>() { return step_seconds<S>(plan, what, what.step.model.layers); });
}

}  // namespace cubist
