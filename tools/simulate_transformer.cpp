// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/compiled/loops.hpp>
#include <cubist/nn/transformer/pipelined_transformer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/trace/traced.hpp>

#include "simulate.hpp"
#include "simulated_program.hpp"

namespace cubist
{

namespace
{

/// Seconds of a step, which all ranks begin together.
template <class S>
SimulatedCost step_cost(const typename S::Axes::Array& extents, const Plan& plan,
                        const SimulatedTransformer& what)
{
  const TokenBatch batch = what.step.batch;
  TransformerConfig config = what.step.model;
  // Sequences may be longer than those that the model was made for.
  config.positions = std::max(config.positions, batch.length);
  // Tokens of all parts of the vocabulary.
  std::vector<int> ids(batch.tokens());
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int>((i * i + 7 * i) % config.vocabulary);
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
        config,
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
