// SPDX-License-Identifier: BSD-3-Clause
// The measurements on the mock of CUDA and NCCL, for one scheme and scalar. They test the
// synchronization; the measured times mean nothing.

#include <fake_engine.hpp>
#include <gpus.hpp>

#include "gpu/device_machine.hpp"
#include "gpu/device_site.hpp"
#include "gpu/elementwise_run.hpp"
#include "gpu/step_run.hpp"
#include "networks/mlp_run.hpp"
#include "networks/transformer_run.hpp"
#include "products/matmul_run.hpp"

// The fake's ranks are threads, which share no GPU.
void examples::Gpus::share() {}

namespace bench
{

template <>
struct Site<cubist::test::FakeCudaEngine> : DeviceSite<cubist::test::FakeCudaEngine>
{
};

namespace
{
using Fake = cubist::test::FakeNccl;

void require_supported(const Setting& on)
{
  cubist::require<cubist::ArgumentError>(
      on.scheme == "summa25d" && on.scalar == "float", "got ", on.scheme, " in ", on.scalar,
      ", but this program supports summa25d in float only; use cubist_bench_gpu for others");
}
}  // namespace

std::optional<Row> matmul_on(const Job& job, const MatmulTask& task)
{
  require_supported(task.on);
  return with_gpus(measure_matmul<Fake, cubist::Summa25D, float, NoPeer<float>>(task), job,
                   task.on);
}

std::optional<Row> mlp_on(const Job& job, const MlpTask& task)
{
  require_supported(task.on);
  return with_gpus(measure_mlp<Fake, cubist::Summa25D, float>(task), job, task.on);
}

std::optional<Row> transformer_on(const Job& job, const TransformerTask& task)
{
  require_supported(task.on);
  return with_gpus(measure_steps<Fake, cubist::Summa25D, float>(task), job, task.on);
}

std::optional<StepTimes> step_on(const Job&, const StepTask& task)
{
  return measure_step<Fake, float>(task);
}

std::optional<cubist::Machine> machine_on(const Job&, const MachineTask& task)
{
  return measure_device_machine<Fake, Scalars>(task);
}

std::optional<std::vector<DevicePass>> elementwise_on(const Job&, const DeviceElementwiseTask& task)
{
  return measure_device_passes<Fake, ScalarList<float>>(task);
}

}  // namespace bench
