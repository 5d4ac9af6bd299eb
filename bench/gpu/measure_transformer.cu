// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "gpu/cuda_site.hpp"
#include "gpu/measurements.hpp"
#include "networks/transformer_run.hpp"

namespace bench
{

template <class S, class T>
std::optional<Row> transformer_in(const TransformerTask& task)
{
  return measure_steps<examples::Gpus, S, T>(task);
}

template std::optional<Row>
transformer_in<cubist::CUBIST_BENCH_SCHEME, CUBIST_BENCH_SCALAR>(const TransformerTask& task);

}  // namespace bench
