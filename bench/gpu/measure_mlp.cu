// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "gpu/cuda_site.hpp"
#include "gpu/measurements.hpp"
#include "networks/mlp_run.hpp"

namespace bench
{

template <class S, class T>
std::optional<Row> mlp_in(const MlpTask& task)
{
  return measure_mlp<examples::Gpus, S, T>(task);
}

template std::optional<Row>
mlp_in<cubist::CUBIST_BENCH_SCHEME, CUBIST_BENCH_SCALAR>(const MlpTask& task);

}  // namespace bench
