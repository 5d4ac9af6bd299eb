// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "gpu/cuda_site.hpp"
#include "gpu/step_run.hpp"

namespace bench
{

#ifdef CUBIST_BENCH_QUICK
using StepScalars = ScalarList<float>;
#else
using StepScalars = ScalarList<float, cubist::bfloat16>;
#endif

std::optional<StepTimes> step_on(const Job&, const StepTask& task)
{
  return StepScalars::with(task.scalar,
                           [&]<class T>() { return measure_step<examples::Gpus, T>(task); });
}

}  // namespace bench
