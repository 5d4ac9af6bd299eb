// SPDX-License-Identifier: BSD-3-Clause

#include "networks/muon_run.hpp"

namespace bench
{

std::optional<Row> muon_on(const Job& job, const MuonTask& task)
{
  return job.mpi ? muon_on_mpi(task) : measure_named_muon<cubist::Threads>(task);
}

}  // namespace bench
