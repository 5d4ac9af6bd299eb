// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <vector>

#include <cubist/backend/simulated.hpp>

#include "layers_run.hpp"

namespace bench
{

std::vector<double> simulate_layers(const LayersTask& task, const cubist::SimulatedMachine& machine)
{
  using cubist::Simulated;
  constexpr int steps = 3;
  Simulated::machine = machine;
  std::vector<double> seconds;
  for (const auto& point : task.points)
  {
    Simulated::options.overlap = point.overlap;
    double begin = 0;
    double end = 0;
    cubist::launch<Simulated>({.ranks = task.ranks}, [&](auto& world) {
      const auto product = make_layer<Simulated>(world, point);
      run_steps(*product, 1);
      world.barrier();
      begin = Simulated::now();
      run_steps(*product, steps);
      end = std::max(end, Simulated::now());
    });
    seconds.push_back((end - begin) / steps);
  }
  return seconds;
}

}  // namespace bench
