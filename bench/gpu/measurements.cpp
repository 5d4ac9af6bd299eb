// SPDX-License-Identifier: BSD-3-Clause

#include "common/scalars.hpp"
#include "common/schemes.hpp"
#include "gpu/device_site.hpp"
#include "gpu/measurements.hpp"

namespace bench
{

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  return GpuScalars::with(task.on.scalar,
                          [&]<class T>() { return with_gpus(matmul_in<T>(task), job, task.on); });
}

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  return cubist::with_scheme<GpuMlpSchemes>(task.on.scheme, [&]<class S>() {
    return GpuScalars::with(task.on.scalar,
                            [&]<class T>() { return with_gpus(mlp_in<S, T>(task), job, task.on); });
  });
}

std::optional<Row> transformer_on(const Job& job, const TransformerTask& task)
{
  return cubist::with_scheme<GpuTransformerSchemes>(task.on.scheme, [&]<class S>() {
    return GpuScalars::with(task.on.scalar, [&]<class T>() {
      return with_gpus(transformer_in<S, T>(task), job, task.on);
    });
  });
}

}  // namespace bench
