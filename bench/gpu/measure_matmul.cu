// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "../matmul_run.hpp"
#include "cuda_site.hpp"

namespace bench
{

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  return with_gpus(measure_matmul<examples::Gpus, NoPeer, GpuScalars>(task), job, task.on);
}

}  // namespace bench
