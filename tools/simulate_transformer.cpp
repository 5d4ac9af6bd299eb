// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/compiled.hpp>
#include <cubist/nn/transformer/pipelined_transformer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/trace/traced.hpp>

#include "simulate.hpp"
#include "simulated_program.hpp"

namespace cubist
{

namespace
{

/// @param length of the sequences, which may be longer than those that the model was made for
[[nodiscard]] TransformerConfig config_of(const TransformerModel& model, std::size_t length)
{
  TransformerConfig config;
  config.vocabulary = model.vocabulary;
  config.positions = std::max(model.positions, length);
  config.width = model.width;
  config.layers = model.layers;
  config.heads = model.heads;
  config.key_value_heads = model.key_value_heads;
  config.feed_forward = model.feed_forward;
  config.learned_positions = !model.rotary;
  config.norm = model.rms_norm ? Norm::rms_norm : Norm::layer_norm;
  config.gated = model.gated;
  config.bias = model.bias;
  config.tied = model.tied;
  config.head_size = model.head_width;
  config.query_key_value_bias = model.query_key_value_bias;
  config.attention_output_bias = model.attention_output_bias;
  config.feed_forward_bias = model.feed_forward_bias;
  config.head_norms = model.head_norms;
  return config;
}

/// Seconds of a step, which all ranks begin together.
template <class S>
SimulatedCost step_cost(const typename S::Axes::Array& extents, const Plan& plan,
                        const SimulatedTransformer& what)
{
  const TransformerModel& model = what.step.model;
  const TokenBatch batch = what.step.batch;
  // Tokens of all parts of the vocabulary.
  std::vector<int> ids(batch.tokens());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int>((i * i + 7 * i) % model.vocabulary);
  double begin = 0;
  double end = 0;
  using Backend = Traced<Simulated>;
  Backend::options = {.file = what.trace};
  launch<Backend>({.ranks = plan.ranks + plan.idle, .rethrow = true}, [&](auto& world) {
    auto pause = std::make_unique<TracePause>();
    const Mesh<S, Backend> mesh{world, extents, IdleRanks::allowed};
    if (!mesh.active()) return;
    const auto method = plan.method == Method::direct ? Method::automatic : Method::collectives;
    Transformer<S, Backend, float> network{
        mesh,
        config_of(model, batch.length),
        {.gathered = plan.gathered,
         .method = method,
         .recompute = what.recompute,
         .inference = !what.training,
         .context_parallel = what.context_parallel,
         .pipeline = {.micro_batches = plan.micro_batches, .pieces = plan.pieces}}};
    const auto run = [&](const auto& compute) {
      mesh.world().barrier();
      pause.reset();
      begin = Simulated::now();
      compute();
      end = std::max(end, Simulated::now());
      pause = std::make_unique<TracePause>();
    };
    if (!what.training) return run([&] { static_cast<void>(network.evaluate(ids, batch.length)); });
    with_adamw(network.parameters(), what.sharded, [&](const auto& update) {
      run([&] {
        network.compute_gradients(ids, batch.length);
        update();
      });
    });
  });
  return {end - begin, static_cast<double>(Simulated::report().peak_memory())};
}

}  // namespace

SimulatedCost simulated_cost(const Plan& plan, const SimulatedTransformer& what,
                             const Machine& machine)
{
  Simulated::machine = machine;
  if (has_scheme<PipelineCatalogue>(plan.scheme))
    return with_scheme<PipelineCatalogue>(
        plan.scheme, [&]<class S>() { return step_cost<S>(extents_of<S>(plan), plan, what); });
  return on_data_scheme(plan, [&]<class S>(const typename S::Axes::Array& extents) {
    return step_cost<S>(extents, plan, what);
  });
}

}  // namespace cubist
