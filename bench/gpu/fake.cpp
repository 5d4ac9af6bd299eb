// SPDX-License-Identifier: BSD-3-Clause
// The same measurements on the fake for CUDA and NCCL, of one scheme and scalar: that they run,
// and order what they do. What they measure there means nothing.

#include <late_engine.hpp>

#include "../matmul_run.hpp"
#include "../mlp_run.hpp"
#include "device_site.hpp"

namespace bench
{

template <>
struct Site<cubist::test::LateEngine> : DeviceSite<cubist::test::LateEngine>
{
};

namespace
{
using Late = cubist::test::LateNccl;

void require_known(const Setting& on)
{
  cubist::require<cubist::ArgumentError>(
      on.scheme == "summa25d" && on.scalar == "float", "got ", on.scheme, " in ", on.scalar,
      ", but this is built for summa25d in float alone; use cubist_bench_gpu for the others");
}
}  // namespace

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  require_known(task.on);
  return with_gpus(measure_matmul<Late, cubist::Summa25D, float, NoPeer<float>>(task), job,
                   task.on);
}

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  require_known(task.on);
  return with_gpus(measure_mlp<Late, cubist::Summa25D, float>(task), job, task.on);
}

}  // namespace bench
