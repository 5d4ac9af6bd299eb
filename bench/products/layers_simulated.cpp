// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <optional>
#include <vector>

#include <cubist/backend/simulated.hpp>
#include <cubist/trace/traced.hpp>

#include "products/layers_run.hpp"

namespace bench
{

std::vector<double> simulate_layers(const LayersTask& task, const cubist::Machine& machine)
{
  using cubist::Simulated;
  using Backend = cubist::Traced<Simulated>;
  constexpr int steps = 3;
  Simulated::machine = machine;
  Backend::options = {.file = task.trace, .only = task.trace_ranks};
  std::vector<double> seconds;
  for (const auto& point : task.points)
  {
    Simulated::options.overlap = point.overlap;
    double begin = 0;
    double end = 0;
    cubist::launch<Backend>({.ranks = task.ranks}, [&](auto& world) {
      std::optional<cubist::TracePause> pause{std::in_place};
      const auto product = make_layer<Backend>(world, point);
      run_steps(*product, 1);
      world.barrier();
      begin = Simulated::now();
      run_steps(*product, steps);
      end = std::max(end, Simulated::now());
      if (task.trace.empty()) return;
      world.barrier();
      pause.reset();
      run_steps(*product, 1);
    });
    seconds.push_back((end - begin) / steps);
  }
  return seconds;
}

}  // namespace bench
