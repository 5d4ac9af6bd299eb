// SPDX-License-Identifier: BSD-3-Clause
// The measurements of products on threads. They share one source, so that the products of each
// scheme are compiled once.

#include <cubist/backend/threads.hpp>

#include "planner/machine_run.hpp"
#include "planner/planner_run.hpp"
#include "products/layers_run.hpp"
#include "products/matmul_run.hpp"

namespace bench
{

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  return job.mpi ? matmul_on_mpi(task) : measure_matmul<cubist::Threads, NoPeer>(task);
}

std::optional<PlannerResult> planner_on_threads(const PlannerTask& task)
{
  return measure_planner<cubist::Threads>(task);
}

std::optional<cubist::Machine> machine_on(const Job& job, const MachineTask& task)
{
  return job.mpi ? machine_on_mpi(task) : measure_machine<Measured<cubist::Threads>>(task);
}

std::optional<std::vector<double>> layers_on_threads(const LayersTask& task)
{
  std::vector<double> seconds;
  for (const auto& point : task.points)
    seconds.push_back(measure_layer<Measured<cubist::Threads>>(task, point).value());
  return seconds;
}

}  // namespace bench
