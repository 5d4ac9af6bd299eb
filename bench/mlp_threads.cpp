// SPDX-License-Identifier: BSD-3-Clause

#include "mlp_run.hpp"

namespace bench
{

std::optional<Row> mlp_on_threads(const MlpTask& task)
{
  return measure_mlp<cubist::Threads>(task);
}

}  // namespace bench
