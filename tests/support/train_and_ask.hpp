// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One function template that does what a program does with a network on any scheme, in stages or
// not: it trains the network, evaluates it, and asks it for outputs.

#include <cstddef>
#include <string>
#include <tuple>
#include <vector>

#include "cubist/matrix/global.hpp"
#include "cubist/nn/losses/loss_value.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "catch.hpp"
#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test
{

/// What a network answers, on rank 0.
struct Answers
{
  std::vector<double> losses;          // of the training steps, then of the evaluation
  Global<double> outputs;              // after the training
  std::vector<std::string> names;      // of the parameters
  std::vector<Global<double>> values;  // of the parameters
};

inline double loss_of(double loss) { return loss; }
template <class Score>
double loss_of(const Score& score)
{
  return score.loss;
}

/// Trains a network for some steps, evaluates it, and asks it for outputs.
/// @param inputs  the arguments of `predict`
/// @param wanted  what `compute_gradients` and `evaluate` take after the inputs
template <class Network, class... In, class... Wanted>
[[nodiscard]] Answers train_and_ask(Network& network, const std::tuple<In...>& inputs,
                                    const Wanted&... wanted)
{
  constexpr int steps = 3;
  return std::apply(
      [&](const auto&... in) {
        const auto parameters = network.parameters();
        Sgd optimizer{parameters, {.learning_rate = 0.5}};
        Answers answers;
        for (int i = 0; i < steps; ++i)
        {
          answers.losses.push_back(network.compute_gradients(in..., wanted...));
          checked_step(optimizer, parameters);
        }
        answers.losses.push_back(loss_of(network.evaluate(in..., wanted...)));
        answers.outputs = gather(network.predict(in...));
        for (const auto& p : parameters)
        {
          answers.names.push_back(p.name);
          answers.values.push_back(gather(p.value));
        }
        return answers;
      },
      inputs);
}

/// Asserts that a network gives the same answers as another one, apart from rounding.
inline void check_answers(const Answers& got, const Answers& wanted, double tolerance = 1e-12)
{
  CHECK(deviation(got.losses, wanted.losses) < tolerance);
  CHECK(difference(got.outputs, wanted.outputs) < tolerance);
  REQUIRE(got.names == wanted.names);
  for (std::size_t i = 0; i < wanted.values.size(); ++i)
    CHECK(difference(got.values[i], wanted.values[i]) < tolerance);
}

}  // namespace cubist::test
