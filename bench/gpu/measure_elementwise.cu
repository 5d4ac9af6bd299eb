// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "gpu/elementwise_run.hpp"

namespace bench
{

std::optional<std::vector<DevicePass>> elementwise_on(const Job&, const DeviceElementwiseTask& task)
{
  return measure_device_passes<examples::Gpus, GpuScalars>(task);
}

}  // namespace bench
