// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind planner.hpp, for any backend.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <vector>

#include <cubist/plan/planner.hpp>

#include "meter/measured.hpp"
#include "planner/machine_run.hpp"
#include "planner/planner.hpp"
#include "products/product.hpp"

namespace bench
{

/// Makes the product that a plan describes; null on a rank that the plan leaves idle.
template <class B, class World>
std::unique_ptr<Product<B, double>> make_planned(World& world, const cubist::Plan& plan,
                                                 cubist::ProductSize size, bool training)
{
  const ProductSetting setting{.scheme = plan.scheme,
                               .mesh = plan.extents,
                               .size = size,
                               .gathered = cubist::Gathered::kept,
                               .method = plan.method,
                               .backward = training,
                               .idle = true};
  return cubist::has_scheme<cubist::DataCatalogue>(plan.scheme)
             ? make_product<B, double, cubist::DataCatalogue>(world, setting)
             : make_product<B, double>(world, setting);
}

template <class P>
void step(P* product, bool training)
{
  if (product == nullptr) return;
  product->forward();
  if (training) product->backward();
}

template <class B, class World>
PlannerRow measure_shape(World& world, const PlannerTask& task, const cubist::Machine& machine,
                         cubist::ProductSize size)
{
  PlannerRow row;
  row.size = size;
  double least = 1e9;
  for (const auto& plan : cubist::plan(size, world.size(), machine,
                                       {.scalar_bytes = sizeof(double),
                                       .training = task.training,
                                       .input_gradient = true,
                                       .data_parallel = task.data_parallel,
                                       .method = task.method}))
  {
    if (task.all_ranks && plan.idle > 0) continue;
    const auto product = make_planned<B>(world, plan, size, task.training);
    // A mesh that takes twice as long as another needs no exact measurement.
    const double time = median_seconds(
        world, task.repeats, [&] { step(product.get(), task.training); }, 2 * least);
    row.all.push_back({plan, time});
    least = std::min(least, time);
  }

  // The fastest of many measurements is fastest partly by chance. So the fastest meshes run again
  // alternately, and the winner then runs against the planner's choice; only that last run counts.
  std::vector<std::size_t> near(row.all.size());
  std::iota(near.begin(), near.end(), std::size_t{0});
  std::sort(near.begin() + 1, near.end(),
            [&](std::size_t a, std::size_t b) { return row.all[a].seconds < row.all[b].seconds; });
  near.resize(std::min<std::size_t>(near.size(), 7));
  const auto compete = [&](const std::vector<std::size_t>& candidates) {
    std::vector<std::unique_ptr<Product<B, double>>> products;
    for (const std::size_t i : candidates)
      products.push_back(make_planned<B>(world, row.all[i].plan, size, task.training));
    // Ranks that share a core take turns of some milliseconds, so each time spans many steps.
    const int steps = 1 + static_cast<int>(task.sample_seconds / least);
    std::vector<std::vector<double>> times(candidates.size());
    for (const auto& product : products) step(product.get(), task.training);
    for (int round = 0; round < task.final_repeats; ++round)
      for (std::size_t n = 0; n < candidates.size(); ++n)
        times[n].push_back(seconds_of_all(world,
                                          [&] {
                                            for (int i = 0; i < steps; ++i)
                                              step(products[n].get(), task.training);
                                          }) /
                           steps);
    for (std::size_t n = 0; n < candidates.size(); ++n)
      row.all[candidates[n]].seconds = median(times[n]);
  };
  compete(near);
  const std::size_t fastest =
      *std::min_element(near.begin(), near.end(), [&](std::size_t a, std::size_t b) {
        return row.all[a].seconds < row.all[b].seconds;
      });
  if (fastest != 0) compete({0, fastest});
  row.choice = row.all[0];
  row.fastest = row.all[fastest];
  return row;
}

template <class B>
std::optional<PlannerResult> measure_planner(const PlannerTask& task)
{
  std::optional<PlannerResult> result;
  using Backend = Measured<B>;
  cubist::launch<Backend>({.ranks = task.ranks}, [&](auto& world) {
    PlannerResult mine;
    mine.machine = task.machine
                       ? *task.machine
                       : measure_machine<Backend>(world, MachineTask{.ranks = task.ranks,
                                                                     .nodes = task.nodes,
                                                                     .machines = task.machines});
    for (const auto& size : task.sizes)
      mine.rows.push_back(measure_shape<Backend>(world, task, mine.machine, size));
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace bench
