// SPDX-License-Identifier: BSD-3-Clause

#include <cubist/backend/mpi.hpp>

#include "networks/generate_run.hpp"

namespace bench
{

std::optional<GenerateRow> generate_on_mpi(const GenerateTask& task)
{
  return measure_generate<cubist::Mpi>(task);
}

}  // namespace bench
