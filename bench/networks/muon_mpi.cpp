// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "networks/muon_run.hpp"

namespace bench
{

std::optional<Row> muon_on_mpi(const MuonTask& task)
{
  return measure_named_muon<cubist::Mpi>(task);
}

}  // namespace bench
