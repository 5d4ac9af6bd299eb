// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "matmul_run.hpp"
#include "scalapack.hpp"

namespace bench
{

std::optional<Row> matmul_on_mpi(const MatmulTask& task)
{
  cubist::Mpi::options.overlap = task.on.overlap;
  return measure_matmul<cubist::Mpi, Scalapack>(task);
}

}  // namespace bench
