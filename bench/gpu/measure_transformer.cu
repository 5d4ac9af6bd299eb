// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "../transformer_run.hpp"
#include "cuda_site.hpp"

namespace bench
{

std::optional<Row> transformer_on(const Job& job, const TransformerTask& task)
{
  return with_gpus(measure_transformer<examples::Gpus, GpuTransformerSchemes, GpuScalars>(task),
                   job, task.on);
}

}  // namespace bench
