// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Training steps that are replayed, and the same steps run, on a fake or a GPU.

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "cubist/core/host_device.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"
#include "cubist/training/numerics_monitor.hpp"
#include "cubist/training/sharded_optimizer.hpp"
#include "cubist/training/step.hpp"

namespace cubist::test
{

/// What the steps compute; the parameters are on rank 0.
struct ReplayedRun
{
  std::vector<double> losses;
  std::vector<std::vector<float>> parameters;
  std::size_t captures = 0;
};

/// Elements that all differ, so that a wrong replay shows.
struct ReplayedNumbers
{
  std::size_t seed;
  CUBIST_HOST_DEVICE float operator()(std::size_t i, std::size_t j) const
  {
    return static_cast<float>((7 * i + 3 * j + 5 * seed) % 11) / 11;
  }
};

/// Takes eight steps of an MLP with dropout and a schedule: five on 12 rows, and three on 7.
/// @tparam sharded  whether the optimizer's state is sharded
template <SchemeType S, class B, bool sharded = false>
ReplayedRun train_in_steps(const Mesh<S, B>& mesh, bool captures)
{
  using Net = MLP<S, B, float>;
  Net mlp{mesh, {6, 10, 4}, {.dropout = 0.2, .seed = 3, .output_dropout = 0.1}};
  const auto parameters = mlp.parameters();
  using Whole = Adam<float, typename Net::Mesh>;
  std::conditional_t<sharded, Sharded<Whole>, Whole> optimizer{parameters};
  const auto input = [&](std::size_t rows) {
    DistMatrix<float, typename S::Input, typename Net::Mesh> m{mesh, {rows, 6}};
    m.generate(ReplayedNumbers{rows});
    return typename Net::Activations{m};
  };
  const auto wanted = [&](const auto& in) {
    auto target = zeros_like(mlp.forward(in));
    target.visit([](auto& m) { m.generate(ReplayedNumbers{2}); });
    return target;
  };
  std::array x{input(12), input(7)};
  std::array target{wanted(x[0]), wanted(x[1])};
  std::array dy{zeros_like(target[0]), zeros_like(target[1])};

  ReplayedRun run;
  LossValue loss;
  std::size_t k = 0;
  Step step{mesh,
            [&](const auto& in, const auto& of) {
              loss = mean_squared_error(mlp.forward(in), of, dy[k]);
              mlp.backward(dy[k]);
              if constexpr (sharded)
                optimizer.step();
              else
                optimizer.step(parameters);
            },
            {.capture = captures}};
  for (int i = 0; i < 8; ++i)
  {
    k = i < 5 ? 0 : 1;
    optimizer.options().learning_rate = 0.05 / (1 + i);
    if (i == 3) x[0].visit([](auto& m) { m.generate(ReplayedNumbers{9}); });
    step(x[k], target[k]);
    run.losses.push_back(loss);
  }
  if constexpr (!sharded) check_replicas(parameters);
  check_replicas_of_values(parameters);
  for (const auto& p : parameters)
  {
    const auto all = gather(p.value);
    run.parameters.emplace_back(all.begin(), all.end());
  }
  run.captures = step.captures();
  return run;
}

}  // namespace cubist::test
