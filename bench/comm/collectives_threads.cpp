// SPDX-License-Identifier: BSD-3-Clause

#include "comm/collectives_run.hpp"

namespace bench
{

std::optional<CollectivesResult> collectives_on_threads(const CollectivesTask& task)
{
  return measure_collectives<cubist::Threads>(task);
}

}  // namespace bench
