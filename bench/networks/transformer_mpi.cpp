// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "networks/transformer_run.hpp"

namespace bench
{

std::optional<Row> transformer_on_mpi(const TransformerTask& task)
{
  cubist::Mpi::options.overlap = task.on.overlap;
  return measure_transformer<cubist::Mpi>(task);
}

}  // namespace bench
