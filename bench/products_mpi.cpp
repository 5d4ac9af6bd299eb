// SPDX-License-Identifier: BSD-3-Clause
// The measurements of products under MPI; see products_threads.cpp.

#include <cubist/backend/mpi.hpp>

#include "matmul_run.hpp"
#include "planner_run.hpp"
#include "scalapack.hpp"

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

}  // namespace bench
