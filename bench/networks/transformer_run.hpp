// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind transformer.hpp, for any backend.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <cubist/compiled/loops.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/nn/transformer/config.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/plan/transformer_cost.hpp>

#include "common/scalars.hpp"
#include "common/schemes.hpp"
#include "meter/meter.hpp"
#include "networks/transformer.hpp"

namespace bench
{

using TransformerSchemes =
    cubist::Schemes<cubist::Megatron1D, cubist::Megatron1DSequence, cubist::Summa2D,
                    cubist::Summa25D, cubist::Cube3D, cubist::Grid3D>;

/// Elements that one rank sends in a step by collectives, on average, without the embedding.
template <class S>
double formula_words(const typename S::Axes::Array& extents, const TransformerTask& task)
{
  const auto words = cubist::transformer_words<S>(
      extents, {.sequences = task.sequences, .length = task.length}, task.config());
  return static_cast<double>(words.forward + (task.forward ? 0 : words.backward)) /
         S::Axes::ranks(extents);
}

template <class B, class S, class T>
std::optional<Row> measure_steps(const TransformerTask& task)
{
  using Traced = cubist::Traced<B>;
  using Backend = Measured<Traced>;
  std::optional<Row> row;
  Traced::options = {.file = task.on.trace, .processor_time = task.breakdown};
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    std::optional<cubist::TracePause> pause{std::in_place};
    const bool first = world.rank() == 0;
    const cubist::Mesh<S, Backend> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                        cubist::IdleRanks::refused};
    cubist::Transformer<S, Backend, T> model{
        mesh, task.config(), {.seed = 42, .method = task.on.method, .inference = task.forward}};
    const auto parameters = model.parameters();
    std::optional<cubist::AdamW<T, cubist::AxisMesh<typename S::Axes, Backend>>> optimizer;
    // PyTorch's AdamW decays all parameters, too.
    if (task.optimizer == "adamw" && !task.forward)
      optimizer.emplace(parameters, cubist::AdamOptions{.decay_biases_and_norms = true});
    std::vector<int> ids;
    for (std::size_t i = 0; i < task.sequences * task.length; ++i)
      ids.push_back(static_cast<int>((i * i + 7 * i) % task.vocabulary));

    const typename B::Engine engine;
    std::optional<StepProducts<T, typename B::Engine>> products;
    if (first) products.emplace(task.step_products());
    std::vector<double> blas;
    std::unique_ptr<Torch> torch;
    if (task.torch)
      alone(world,
            [&] { torch = Torch::start("torch_transformer.py", torch_options(task), task.gpu); });
    const auto step = [&] {
      if (task.forward) return static_cast<void>(model.evaluate(ids, task.length));
      model.compute_gradients(ids, task.length);
      if (optimizer) optimizer->step(parameters);
    };
    Meter ours{world, true};
    for (int i = -task.on.warm_up; i < task.on.repeats; ++i)
    {
      alone(world, blas, i >= 0, [&] { products->run(engine); });
      ours.run(i >= 0, step);
      if (task.torch)
        alone(world, [&] {
          if (torch) torch->step(i >= 0);
        });
    }
    CoreTimes machine;
    if (task.breakdown)
      machine = trace_steps<B>(world, std::min(3, task.on.repeats), pause, step);
    else
      trace_once(world, task.on.trace, pause, step);

    Row result{.scheme = S::name, .mesh = S::Axes::to_string(mesh.extents())};
    if (task.on.method != cubist::Method::collectives && cubist::can_expose(world))
      result.method = cubist::Method::direct;
    else
      result.formula_words = formula_words<S>(mesh.extents(), task);
    for (const auto& product : task.step_products())
      result.giga_operations += giga_operations(product);
    result.cost = ours.cost();
    result.machine = machine;
    if (!first) return;
    result.blas = Times{blas};
    if (torch) result.torch = torch->result();
    row = result;
  });
  return row;
}

/// Measures with the scheme and the scalar of the task.
template <class B>
std::optional<Row> measure_transformer(const TransformerTask& task)
{
  return cubist::with_scheme<TransformerSchemes>(task.on.scheme, [&]<class S>() {
    return ScalarList<float>::with(task.on.scalar,
                                   [&]<class T>() { return measure_steps<B, S, T>(task); });
  });
}

}  // namespace bench
