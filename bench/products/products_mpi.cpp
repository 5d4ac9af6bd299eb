// SPDX-License-Identifier: BSD-3-Clause
// The measurements of products under MPI; see products_threads.cpp.

#include <cubist/backend/mpi.hpp>

#include "planner/machine_run.hpp"
#include "planner/planner_run.hpp"
#include "products/layers_run.hpp"
#include "products/matmul_run.hpp"
#include "scalapack/scalapack.hpp"

namespace bench
{

std::optional<Row> matmul_on_mpi(const MatmulTask& task)
{
  cubist::Mpi::options.overlap = task.on.overlap;
  return measure_matmul<cubist::Mpi, Scalapack>(task);
}

std::optional<PlannerResult> planner_on_mpi(const PlannerTask& task)
{
  cubist::Mpi::options.overlap = task.overlap;
  return measure_planner<cubist::Mpi>(task);
}

std::optional<cubist::Machine> machine_on_mpi(const MachineTask& task)
{
  cubist::Mpi::options.overlap = true;
  return measure_machine<Measured<cubist::Mpi>>(task);
}

std::optional<std::vector<double>> layers_on_mpi(const LayersTask& task)
{
  std::vector<double> seconds;
  for (const auto& point : task.points)
  {
    cubist::Mpi::options.overlap = point.overlap;
    if (const auto measured = measure_layer<Measured<cubist::Mpi>>(task, point))
      seconds.push_back(*measured);
  }
  if (seconds.empty()) return {};
  return seconds;
}

}  // namespace bench
