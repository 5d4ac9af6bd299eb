// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "common/schemes.hpp"
#include "gpu/cuda_site.hpp"
#include "gpu/measurements.hpp"
#include "products/matmul_run.hpp"

namespace bench
{

template <class T>
std::optional<Row> matmul_in(const MatmulTask& task)
{
  return measure_matmul<examples::Gpus, NoPeer, ScalarList<T>, GpuProductSchemes>(task);
}

template std::optional<Row> matmul_in<CUBIST_BENCH_SCALAR>(const MatmulTask& task);

}  // namespace bench
