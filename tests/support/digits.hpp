// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Trains networks on the digits of examples/data/digits.csv.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cubist/dataset/row_batches.hpp"
#include "cubist/nn/networks/mlp.hpp"
#include "cubist/nn/optimizers/optimizer.hpp"

#include "checked_step.hpp"
#include "nn.hpp"

namespace cubist::test
{

/// Batches of 48 digits.
[[nodiscard]] inline const RowBatches& digits()
{
  static const CsvFile file{CUBIST_DIGITS_CSV};
  static const RowBatches batches{file,
                                  {.batch = 48, .rows = {.scaling = {.mean = 0, .deviation = 16}}}};
  return batches;
}

inline const auto digit_steps = static_cast<std::size_t>(repeats(200, 40, 20));

/// The loss of a batch, and its gradients.
template <class S, class B, class T>
double digit_gradients(MLP<S, B, T>& mlp, const Mesh<S, B>& mesh, std::uint64_t batch)
{
  const auto [x, labels] = digits().batch<T, typename S::Input>(mesh, batch);
  return mlp.compute_gradients(x, labels);
}

/// Returns the losses of a network that AdamW trains on the scheme and mesh of `place`.
/// @param make  (mesh): the network
template <class S, class Make>
[[nodiscard]] std::vector<double> digit_losses(const Place<S>& place, Make make)
{
  return on_root(place, [&](const auto& mesh) {
    auto mlp = make(mesh);
    const auto parameters = mlp.parameters();
    AdamW optimizer{parameters, {.learning_rate = 0.003}};
    std::vector<double> losses;
    for (std::size_t step = 0; step < digit_steps; ++step)
    {
      losses.push_back(digit_gradients(mlp, mesh, step));
      checked_step(step, digit_steps, optimizer, parameters);
    }
    return losses;
  });
}

}  // namespace cubist::test
