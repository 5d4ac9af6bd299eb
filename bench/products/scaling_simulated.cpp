// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstddef>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/matmul/dist_matmul.hpp>
#include <cubist/matrix/dist_matrix.hpp>
#include <cubist/plan/cost.hpp>

#include "common/scalars.hpp"
#include "common/schemes.hpp"
#include "products/scaling.hpp"

namespace bench
{

namespace
{

using cubist::Simulated;

/// A product on simulated ranks.
struct Simulation
{
  Row row = {};
  std::vector<cubist::SimulatedRankReport> before =
      {};  // each rank's report when the product begins
  double begin = 0;
  double end = 0;
};

/// Simulates the product; only forward is compiled.
template <class S, class T>
void run(const MatmulTask& task, Simulation& simulation)
{
  using Matmul = cubist::DistMatMul<S, Simulated, T>;
  simulation.before.resize(static_cast<std::size_t>(task.on.ranks));
  cubist::launch<Simulated>({.ranks = task.on.ranks}, [&](auto& world) {
    const auto& [m, n, k] = task.size;
    const cubist::Mesh<S, Simulated> mesh{world, extents_for<S>(task.on.mesh, world.size()),
                                          cubist::IdleRanks::refused};
    Matmul product{mesh, task.size, cubist::Gathered::again, task.on.method};
    const typename Matmul::Input x{mesh, {m, k}};
    const typename Matmul::Weight w{mesh, {k, n}};
    typename Matmul::Output y{mesh, {m, n}};
    for (int i = 0; i < task.on.warm_up; ++i) product.forward(x, w, y);
    world.barrier();
    simulation.begin = Simulated::now();
    simulation.before[static_cast<std::size_t>(world.rank())] = Simulated::rank_report();
    product.forward(x, w, y);
    simulation.end = std::max(simulation.end, Simulated::now());
    if (world.rank() > 0) return;
    Row& row = simulation.row;
    row.scheme = S::name;
    row.mesh = S::Axes::to_string(mesh.extents());
    row.method = product.method();
    if (row.method == cubist::Method::collectives)
      row.formula_words = cubist::cost<S>(mesh.extents(), task.size).forward.words();
  });
}

/// Returns the cost of the simulated run.
Cost cost_of(const Simulation& simulation)
{
  Cost cost{.total = Times{{simulation.end - simulation.begin}}};
  const auto& before = simulation.before;
  const auto& after = Simulated::report().ranks;
  const auto ranks = static_cast<double>(after.size());
  for (std::size_t r = 0; r < after.size(); ++r)
  {
    const auto first = before[r].traffic.total();
    const auto last = after[r].traffic.total();
    const auto words = static_cast<double>(last.elements - first.elements);
    cost.communication +=
        (after[r].copies - before[r].copies + after[r].waits - before[r].waits) / ranks;
    cost.mean_words += words / ranks;
    cost.most_words = std::max(cost.most_words, words);
    cost.most_messages =
        std::max(cost.most_messages, static_cast<double>(last.messages - first.messages));
  }
  return cost;
}

}  // namespace

Row simulate_matmul(const MatmulTask& task, const cubist::Machine& machine)
{
  const int on_a_node = machine.on_the_cores(task.on.ranks);
  const int threads = std::max(1, task.on.threads_per_rank);
  Simulated::options.overlap = task.on.overlap;
  Simulated::machine = machine;
  // Ranks get no more cores than threads, even if they are few.
  Simulated::machine.cores = std::min<double>(machine.cores, threads * on_a_node);
  Simulation simulation;
  std::size_t scalar_bytes = 0;
  Scalars::with(task.on.scalar, [&]<class T>() {
    scalar_bytes = sizeof(T);
    cubist::with_scheme(task.on.scheme, [&]<class S>() { run<S, T>(task, simulation); });
  });
  Row row = simulation.row;
  row.giga_operations = giga_operations(task.size);
  row.cost = cost_of(simulation);
  const double cores = Simulated::machine.cores * task.on.ranks / on_a_node;
  const auto& rates = machine.rates.at(task.on.scalar);
  row.blas = Times{{machine.product_seconds(rates, task.size, scalar_bytes) / cores}};
  return row;
}

}  // namespace bench
