// SPDX-License-Identifier: BSD-3-Clause
// One source for both, as most of its time goes to the headers.

#include <gpus.hpp>

#include "../matmul_run.hpp"
#include "../mlp_run.hpp"
#include "cuda_site.hpp"

namespace bench
{

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  return with_gpus(measure_matmul<examples::Gpus, NoPeer, GpuScalars>(task), job, task.on);
}

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  return with_gpus(measure_mlp<examples::Gpus, GpuScalars>(task), job, task.on);
}

}  // namespace bench
