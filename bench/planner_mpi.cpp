// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "planner_run.hpp"

namespace bench
{

std::optional<PlannerResult> planner_on_mpi(const PlannerTask& task)
{
  cubist::Mpi::options.overlap = task.overlap;
  return measure_planner<cubist::Mpi>(task);
}

}  // namespace bench
