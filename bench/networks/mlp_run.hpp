// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind mlp.hpp, for any backend.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <cubist/compiled/loops.hpp>
#include <cubist/nn/networks/mlp.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/plan/cost.hpp>

#include "common/scalars.hpp"
#include "common/schemes.hpp"
#include "meter/meter.hpp"
#include "networks/mlp.hpp"
#include "networks/step_products.hpp"

namespace bench
{

inline cubist::Activation activation_of(const std::string& name)
{
  if (name == "gelu") return cubist::gelu;
  if (name == "gelu_tanh") return cubist::gelu_tanh;
  if (name == "relu") return cubist::relu;
  if (name == "silu") return cubist::silu;
  return cubist::identity;
}

/// Returns a function that updates the parameters after each step.
template <class Parameters>
std::function<void()> optimizer_of(const std::string& name, const Parameters& parameters)
{
  const auto steps = [&](auto optimizer) {
    const auto shared = std::make_shared<decltype(optimizer)>(std::move(optimizer));
    return [shared, parameters] { shared->step(parameters); };
  };
  if (name == "sgd") return steps(cubist::Sgd{parameters, {.learning_rate = 1e-3}});
  if (name == "adam") return steps(cubist::Adam{parameters, {.learning_rate = 1e-3}});
  return [] {};
}

/// Random numbers in [-1, 1).
template <class T>
struct Random
{
  cubist::Philox numbers;
  std::size_t columns;

  CUBIST_HOST_DEVICE T operator()(std::size_t i, std::size_t j) const
  {
    return numbers.symmetric<T>(i * columns + j, 1);
  }
};

template <class B, class S, class T>
std::optional<Row> measure_mlp(const MlpTask& task)
{
  using Traced = cubist::Traced<B>;
  using Backend = Measured<Traced>;
  using Activations = cubist::NetworkMatrix<S, Backend, T>;
  std::optional<Row> row;
  Traced::options = {.file = task.on.trace};
  cubist::launch<Backend>({.ranks = task.on.ranks}, [&](auto& world) {
    std::optional<cubist::TracePause> pause{std::in_place};
    const bool first = world.rank() == 0;
    const cubist::Mesh<S, Backend> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                        cubist::IdleRanks::refused};
    cubist::MLP<S, Backend, T> mlp{mesh,
                                   task.layers,
                                   {.activation = activation_of(task.activation),
                                    .seed = 42,
                                    .method = task.on.method,
                                    .recompute = task.recompute}};
    const auto optimize = optimizer_of(task.optimizer, mlp.parameters());
    using Input = typename Activations::template Matrix<typename S::Input>;
    Input input{mesh, {task.tokens, task.layers.front()}};
    input.generate(Random<T>{{1, 0}, input.cols()});
    const Activations x{std::move(input)};
    auto dy = zeros_like(mlp.forward(x));
    dy.visit([&](auto& m) { m.generate(Random<T>{{2, 0}, m.cols()}); });

    const typename B::Engine engine;
    std::optional<StepProducts<T, typename B::Engine>> products;
    if (first) products.emplace(task.step_products());
    std::vector<double> blas;
    std::unique_ptr<Torch> torch;
    if (task.torch)
      alone(world, [&] { torch = Torch::start("torch_mlp.py", torch_options(task), task.gpu); });
    const auto step = [&] {
      mlp.forward(x);
      if (task.input_gradient)
        (void)mlp.backward_with_input(dy);
      else
        mlp.backward(dy);
      optimize();
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
    trace_once(world, task.on.trace, pause, step);

    Row result{.scheme = S::name, .mesh = S::Axes::to_string(mesh.extents())};
    if (task.on.method != cubist::Method::collectives && cubist::can_expose(world))
      result.method = cubist::Method::direct;
    result.cost = ours.cost();
    const auto all = task.step_products();
    for (std::size_t i = 0; i < all.size(); ++i)
    {
      const auto& product = all[i];
      const auto cost = cubist::cost<S>(mesh.extents(), product.size);
      const auto& backward = product.input_gradient ? cost.backward : cost.backward_weight;
      if (result.method == cubist::Method::collectives)
        result.formula_words +=
            (task.runs_twice(i) ? 2 : 1) * cost.forward.words() + backward.words();
      result.giga_operations += giga_operations(product);
    }
    if (!first) return;
    result.blas = Times{blas};
    if (torch) result.torch = torch->result();
    row = result;
  });
  return row;
}

/// Measures with the scheme and the scalar of the task.
template <class B>
std::optional<Row> measure_named_mlp(const MlpTask& task)
{
  return cubist::with_scheme<FewSchemes>(task.on.scheme, [&]<class S>() {
    return Scalars::with(task.on.scalar, [&]<class T>() { return measure_mlp<B, S, T>(task); });
  });
}

}  // namespace bench
