// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/compiled/loops.hpp>
#include <cubist/nn/transformer/pipelined_transformer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/plan/transformer_parts.hpp>
#include <cubist/trace/traced.hpp>

#include "simulate.hpp"
#include "simulated_program.hpp"

namespace cubist
{

namespace
{

/// Returns the replicas of a mesh, if all have the same number of rows in a micro-batch.
template <class S>
Replicas replicas_that_are_equal(const typename S::Axes::Array& extents, const Plan& plan,
                                 const SimulatedTransformer& what)
{
  if (what.step.batch.sequences % plan.micro_batches != 0) return {};
  const TokenBatch batch{what.step.batch.sequences / plan.micro_batches, what.step.batch.length};
  const auto of_stage = [&]<class D>(const typename D::Axes::Array& stage) {
    const TransformerParts<D> parts{stage, batch, what.step.model, what.context_parallel};
    const std::size_t rows = parts.sequence_cut().is_cut() ? 1 : batch.length;
    return equal_replicas<D>(stage, {batch.tokens(), what.step.model.width},
                             rows * D::quantum(stage));
  };
  if constexpr (is_pipeline<S>)
  {
    const auto stage = S::of_scheme(extents);
    if (of_stage.template operator()<typename S::StageScheme>(stage).count != extents[1]) return {};
    return replicas_of<S>(extents);
  }
  else
    return of_stage.template operator()<S>(extents);
}

/// Simulates a step, which all ranks begin together.
template <class S>
SimulatedCost step_cost(const typename S::Axes::Array& extents, const Plan& plan,
                        const SimulatedTransformer& what)
{
  const TokenBatch batch = what.step.batch;
  TransformerConfig config = what.step.model;
  // Sequences may be longer than those for which the model was made.
  config.positions = std::max(config.positions, batch.length);
  // The tokens come from all parts of the vocabulary.
  std::vector<int> ids(batch.tokens());
  for (std::size_t i = 0; i < ids.size(); ++i)
  {
    // Each sequence has the same tokens, so that replicas do the same work.
    const std::size_t t = i % batch.length;
    ids[i] = static_cast<int>((t * t + 7 * t) % config.vocabulary);
  }
  double begin = 0;
  double end = 0;
  using Backend = Traced<Simulated>;
  Backend::options = {.file = what.trace};
  if (!what.all_replicas)
    Simulated::options.replicas = replicas_that_are_equal<S>(extents, plan, what);
  const ProgressLine progress{plan};
  launch<Backend>({.ranks = plan.ranks + plan.idle, .rethrow = true}, [&](auto& world) {
    auto pause = std::make_unique<TracePause>();
    const Mesh<S, Backend> mesh{world, extents, IdleRanks::allowed};
    if (!mesh.active()) return;
    std::optional<LoraOptions> lora;
    if (what.lora > 0) lora = LoraOptions{.rank = what.lora};
    const auto method = plan.method == Method::direct ? Method::automatic : Method::collectives;
    Transformer<S, Backend, float> network{
        mesh,
        config,
        {.gathered = plan.gathered,
         .method = method,
         .recompute = what.recompute,
         .inference = !what.training,
         .context_parallel = what.context_parallel,
         .pipeline = {.micro_batches = plan.micro_batches, .pieces = plan.pieces}},
        lora};
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
  const auto& report = Simulated::report();
  return {end - begin, static_cast<double>(report.peak_memory()),
          folding_text(what.all_replicas ? 1 : replicas_of<S>(extents).count)};
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
