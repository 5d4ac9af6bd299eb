// SPDX-License-Identifier: BSD-3-Clause

#include "networks/generate_run.hpp"

namespace bench
{

std::optional<GenerateRow> generate_on(const Job& job, const GenerateTask& task)
{
  return job.mpi ? generate_on_mpi(task) : measure_generate<cubist::Threads>(task);
}

}  // namespace bench
