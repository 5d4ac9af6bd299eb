// SPDX-License-Identifier: BSD-3-Clause

#include <gpus.hpp>

#include "device_rates.hpp"

namespace bench
{

std::optional<cubist::SimulatedMachine> rates_on(const Job&, const RatesTask& task)
{
  return measure_device_rates<examples::Gpus, GpuScalars>(task);
}

}  // namespace bench
