// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "comm/collectives_run.hpp"

namespace bench
{

std::optional<CollectivesResult> collectives_on_mpi(const CollectivesTask& task)
{
  cubist::Mpi::options.overlap = task.overlap;
  return measure_collectives<cubist::Mpi>(task);
}

}  // namespace bench
