// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind layers.hpp, for any backend.

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/machine_run.hpp"
#include "products/layers.hpp"
#include "products/product.hpp"

namespace bench
{

/// Runs steps of a layer in a row, without a barrier between them.
template <class P>
void run_steps(P& product, int steps)
{
  for (int i = 0; i < steps; ++i)
  {
    product.forward();
    product.backward();
  }
}

template <class B, class World>
auto make_layer(World& world, const LayerPoint& point)
{
  return make_product<B, double>(world, {.scheme = point.scheme,
                                         .mesh = point.mesh,
                                         .size = point.size,
                                         .gathered = cubist::Gathered::kept,
                                         .backward = true});
}

/// The median seconds of a step. A run has as many steps as take `sample_seconds`.
template <class B>
std::optional<double> measure_layer(const LayersTask& task, const LayerPoint& point)
{
  std::optional<double> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    const auto product = make_layer<B>(world, point);
    const double first = seconds_of_all(world, [&] { run_steps(*product, 1); });
    const int steps = std::max(1, static_cast<int>(task.sample_seconds / first));
    const double seconds =
        median_seconds(world, task.repeats, [&] { run_steps(*product, steps); }) / steps;
    if (world.rank() == 0) result = seconds;
  });
  return result;
}

}  // namespace bench
