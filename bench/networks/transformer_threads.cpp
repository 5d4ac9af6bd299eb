// SPDX-License-Identifier: BSD-3-Clause

#include "networks/transformer_run.hpp"

namespace bench
{

std::optional<Row> transformer_on(const Job& job, const TransformerTask& task)
{
  return job.mpi ? transformer_on_mpi(task) : measure_transformer<cubist::Threads>(task);
}

}  // namespace bench
