// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "gpu/device_machine.hpp"

namespace bench
{

std::optional<cubist::Machine> machine_on(const Job&, const MachineTask& task)
{
  return measure_device_machine<examples::Gpus, GpuScalars>(task);
}

}  // namespace bench
