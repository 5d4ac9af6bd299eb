// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind step.hpp, for any backend with a GPU for each rank.

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include <cubist/nn/networks/mlp.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/scheme/summa2d.hpp>
#include <cubist/training/step.hpp>

#include "common/schemes.hpp"
#include "gpu/step.hpp"
#include "networks/mlp_run.hpp"

namespace bench
{

template <class B, class T>
std::optional<StepTimes> measure_step(const StepTask& task)
{
  using S = cubist::Summa2D;
  using Net = cubist::MLP<S, B, T>;
  std::optional<StepTimes> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    const cubist::Mesh<S, B> mesh{world, extents_for<S>({}, world.size()),
                                  cubist::IdleRanks::refused};
    Net mlp{mesh, task.layers, {.activation = activation_of(task.activation), .seed = 42}};
    const auto parameters = mlp.parameters();
    cubist::Adam optimizer{parameters};
    cubist::DistMatrix<T, S::Input, typename Net::Mesh> x{mesh, {task.tokens, task.layers.front()}};
    x.generate(Random<T>{{1, 0}, x.cols()});
    auto target = zeros_like(mlp.forward(x));
    target.visit([](auto& m) { m.generate(Random<T>{{2, 0}, m.cols()}); });
    auto dy = zeros_like(target);

    cubist::LossValue loss;
    const auto forward = [&] { loss = mean_squared_error(mlp.forward(x), target, dy); };
    const auto backward = [&] { mlp.backward(dy); };
    const auto update = [&] { optimizer.step(parameters); };
    const auto step = [&] { forward(), backward(), update(); };
    cubist::Step replayed{mesh, step};

    std::array<std::unique_ptr<Torch>, torch_modes.size()> torch;
    if (task.torch && world.rank() == 0)
      for (std::size_t i = 0; i < torch.size(); ++i)
        torch[i] = Torch::start("torch_step.py", torch_options(task, torch_modes[i]), true);

    std::array<std::vector<double>, 5> times;
    const auto measure = [&](std::size_t which, bool counts, const auto& f) {
      world.barrier();
      Site<typename B::Engine>::finish();
      const double time = seconds([&] {
        f();
        Site<typename B::Engine>::finish();
      });
      if (counts) times[which].push_back(time);
    };
    for (int i = -task.warm_up; i < task.repeats; ++i)
    {
      measure(0, i >= 0, forward);
      measure(1, i >= 0, backward);
      measure(2, i >= 0, update);
      measure(3, i >= 0, step);
      measure(4, i >= 0, [&] { replayed(); });
      world.barrier();
      for (const auto& t : torch)
        if (t) t->step(i >= 0);
    }
    if (world.rank() != 0) return;
    StepTimes all;
    all.forward = Times{times[0]};
    all.backward = Times{times[1]};
    all.optimizer = Times{times[2]};
    all.run = Times{times[3]};
    all.replayed = Times{times[4]};
    for (std::size_t i = 0; i < torch.size(); ++i)
      if (torch[i]) all.torch[i] = torch[i]->result();
    result = all;
  });
  return result;
}

}  // namespace bench
