// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "../mlp_run.hpp"
#include "cuda_site.hpp"

namespace bench
{

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  return with_gpus(measure_mlp<examples::Gpus, GpuScalars>(task), job, task.on);
}

}  // namespace bench
