// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "networks/mlp_run.hpp"

namespace bench
{

std::optional<Row> mlp_on_mpi(const MlpTask& task)
{
  cubist::Mpi::options.overlap = task.on.overlap;
  return measure_named_mlp<cubist::Mpi>(task);
}

}  // namespace bench
