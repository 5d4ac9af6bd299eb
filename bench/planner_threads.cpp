// SPDX-License-Identifier: BSD-3-Clause

#include "planner_run.hpp"

namespace bench
{

std::optional<PlannerResult> planner_on_threads(const PlannerTask& task)
{
  return measure_planner<cubist::Threads>(task);
}

}  // namespace bench
