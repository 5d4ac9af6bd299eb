// SPDX-License-Identifier: BSD-3-Clause

#include "matmul_run.hpp"

namespace bench
{

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  return job.mpi ? matmul_on_mpi(task) : measure_matmul<cubist::Threads, NoPeer>(task);
}

}  // namespace bench
