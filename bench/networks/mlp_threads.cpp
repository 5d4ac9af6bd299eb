// SPDX-License-Identifier: BSD-3-Clause

#include "networks/mlp_run.hpp"

namespace bench
{

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  return job.mpi ? mlp_on_mpi(task) : measure_named_mlp<cubist::Threads>(task);
}

}  // namespace bench
