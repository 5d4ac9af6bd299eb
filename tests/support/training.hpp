// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Networks that the tests train on any scheme and mesh, and their loss curves.

#include <cstddef>
#include <optional>
#include <vector>

#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"
#include "sanitized.hpp"

namespace cubist::test
{

enum class Rule
{
  sgd,
  adam,
  adam_w
};

/// A network and its training.
struct Training
{
  std::vector<std::size_t> sizes;
  MlpOptions options = {};
  std::optional<LoraOptions> lora = {};
  Rule rule = Rule::sgd;
  double rate = 0.5;
  double momentum = 0;
  int steps = repeats(32, 4);

  [[nodiscard]] std::size_t in() const { return sizes.front(); }
  [[nodiscard]] std::size_t out() const { return sizes.back(); }
};

inline constexpr std::size_t rows = 13;

/// Trains on a mesh, and returns the loss of each step; update(i, optimizer, parameters) completes
/// step i.
template <class T, class S, class B, class F>
std::vector<double> losses(const Mesh<S, B>& mesh, const Training& t, F update)
{
  using Network = MLP<S, B, T>;
  Network mlp{mesh, t.sizes, t.options, t.lora};
  const auto parameters = mlp.parameters();
  const typename Network::Activations x{
      scatter<typename S::Input>(mesh, uniform<T>(rows, t.in(), 1, 2))};
  const auto labels = classes(rows, t.out());
  using M = typename Network::Mesh;
  std::optional<Sgd<T, M>> sgd;
  std::optional<Adam<T, M>> adam;
  std::optional<AdamW<T, M>> adam_w;
  if (t.rule == Rule::sgd) sgd.emplace(parameters, SgdOptions{t.rate, t.momentum});
  if (t.rule == Rule::adam) adam.emplace(parameters, AdamOptions{.learning_rate = t.rate});
  if (t.rule == Rule::adam_w) adam_w.emplace(parameters, AdamOptions{.learning_rate = t.rate});
  std::vector<double> curve;
  for (int i = 0; i < t.steps; ++i)
  {
    const auto& y = mlp.forward(x);
    auto dy = zeros_like(y);
    curve.push_back(softmax_cross_entropy(y, labels, dy));
    mlp.backward(dy);
    if (sgd) update(i, *sgd, parameters);
    if (adam) update(i, *adam, parameters);
    if (adam_w) update(i, *adam_w, parameters);
  }
  return curve;
}

template <class T, class S>
std::vector<double> loss_curve(const Place<S>& place, const Training& t)
{
  return on_root(place, [&](const auto& mesh) {
    return losses<T>(mesh, t, [&t](int i, auto& optimizer, const auto& parameters) {
      checked_step(static_cast<std::size_t>(i), static_cast<std::size_t>(t.steps), optimizer,
                   parameters);
    });
  });
}

inline const Training one_layer{.sizes = {7, 5}};
inline const Training two_layers{.sizes = {7, 11, 5},
                                 .options = {.activation = gelu, .dropout = 0.25, .seed = 3},
                                 .rule = Rule::adam_w,
                                 .rate = 0.01};
inline const Training three_layers{.sizes = {7, 11, 9, 5},
                                   .options = {.activation = silu, .bias = false},
                                   .rate = 0.1,
                                   .momentum = 0.9};
inline const Training five_layers{
    .sizes = {7, 11, 6, 13, 9, 5},
    .options = {.activation = gelu_tanh, .output = cubist::tanh, .dropout = 0.1},
    .rule = Rule::adam,
    .rate = 0.01};

/// Trains a network with one feature on `m` rows, so that most ranks hold nothing.
template <class S, class B>
[[nodiscard]] Findings trains_on_few(const Mesh<S, B>& mesh, std::size_t m)
{
  Findings found;
  MLP<S, B, double> mlp{mesh, {1, 1, 1}, {.dropout = 0.5}};
  const auto parameters = mlp.parameters();
  Sgd optimizer{parameters};
  const typename MLP<S, B, double>::Activations x{
      scatter<typename S::Input>(mesh, uniform<double>(m, 1, 4))};
  const std::vector<int> labels(m, 0);
  for (int step = 0; step < 2; ++step)
  {
    const auto& y = mlp.forward(x);
    auto dy = zeros_like(y);
    const double loss = softmax_cross_entropy(y, labels, dy);
    found.check(loss == 0, "the loss of one class is ", loss);
    found.check(accuracy(y, labels) == static_cast<double>(m),
                "the accuracy of one class is not 1");
    const Shape dx = mlp.backward_with_input(dy).shape();
    found.check(dx == Shape{m, 1}, "dX is ", dx);
    checked_step(optimizer, parameters);
  }
  found.check(mlp.evaluate(x, labels).loss == 0, "evaluate gives another loss than training");
  return found;
}

}  // namespace cubist::test
