// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "../mlp_run.hpp"
#include "cuda_site.hpp"
#include "measurements.hpp"

namespace bench
{

template <class T>
std::optional<Row> mlp_in(const MlpTask& task)
{
  return measure_named_mlp<examples::Gpus, ScalarList<T>, GpuSchemes>(task);
}

template std::optional<Row> mlp_in<CUBIST_BENCH_SCALAR>(const MlpTask& task);

}  // namespace bench
