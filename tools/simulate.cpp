// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>

#include <cubist/backend/simulated.hpp>
#include <cubist/compiled/loops.hpp>
#include <cubist/nn/networks/mlp.hpp>

#include "simulate.hpp"
#include "simulated_program.hpp"

namespace cubist
{

namespace
{

/// Simulates a step, which all ranks begin together. Before it, simulates another one, in training
/// with an optimizer, whose memory counts.
template <class S, class T>
SimulatedCost step_cost(const typename S::Axes::Array& extents, const Plan& plan,
                        const SimulatedStep& step)
{
  double begin = 0;
  double end = 0;
  if (!step.all_replicas)
    Simulated::options.replicas =
        equal_replicas<S>(extents, {step.tokens, step.sizes.front()}, S::quantum(extents));
  Simulated::options.replicas.messages = false;
  const ProgressLine progress{plan};
  launch<Simulated>({.ranks = plan.ranks + plan.idle, .rethrow = true}, [&](auto& world) {
    const Mesh<S, Simulated> mesh{world, extents, IdleRanks::allowed};
    if (!mesh.active()) return;
    const auto method = plan.method == Method::direct ? Method::automatic : Method::collectives;
    MLP<S, Simulated, T> mlp{mesh,
                             step.sizes,
                             {.activation = gelu,
                              .gathered = plan.gathered,
                              .method = method,
                              .recompute = step.recompute}};
    const DistMatrix<T, typename S::Input, AxisMesh<typename S::Axes, Simulated>> x{
        mesh, {step.tokens, step.sizes.front()}};
    // The first step also makes communicators, which takes longer than a short step.
    const auto& first = mlp.forward(x);
    if (step.training)
      with_adamw(mlp.parameters(), step.sharded, [&](const auto& update) {
        const auto dy = zeros_like(first);
        mlp.backward(dy);
        update();
      });
    mesh.world().barrier();
    begin = Simulated::now();
    const auto& y = mlp.forward(x);
    if (step.training) mlp.backward(y);
    end = std::max(end, Simulated::now());
  });
  const auto& report = Simulated::report();
  return {end - begin, static_cast<double>(report.peak_memory()),
          folding_text(step.all_replicas ? 1 : replicas_of<S>(extents).count)};
}

/// Returns a machine on which float takes as long as 16-bit scalars.
Machine with_short_elements(Machine machine)
{
  constexpr double times = 2;  // elements in the same number of bytes
  machine.rates["float"] = machine.rates_of(sizeof(short));
  machine.memory_bandwidth *= times;
  machine.node_memory_bandwidth *= times;
  machine.segment_bytes *= times;
  for (Link& link : machine.links)
  {
    link.bandwidth *= times;
    link.rank_bandwidth *= times;
    link.core_seconds_per_byte /= times;
  }
  return machine;
}

}  // namespace

void start_simulator(char**) {}

SimulatedCost simulated_cost(const Plan& plan, const SimulatedStep& step, const Machine& machine)
{
  Simulated::machine = step.is_short ? with_short_elements(machine) : machine;
  return on_data_scheme(plan, [&]<class S>(const typename S::Axes::Array& extents) {
    return step.single ? step_cost<S, float>(extents, plan, step)
                       : step_cost<S, double>(extents, plan, step);
  });
}

}  // namespace cubist
