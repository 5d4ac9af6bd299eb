// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures element-wise functions on a GPU, each beside a copy on the device that moves as many
// bytes. Calls are queued, and the host waits for the device once, except for `fold`, which returns
// to the host.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct DeviceElementwiseTask
{
  std::size_t rows = 0;
  std::size_t cols = 0;
  std::string scalar;
  int calls = 10;  // calls of each function in a run
};

struct DevicePass
{
  std::string function;
  double bytes = 0;  // bytes that it reads and writes
  double seconds = 0;
  double copy_seconds = 0;
};

/// Runs the benchmark. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<std::vector<DevicePass>>
elementwise_on(const Job& job, const DeviceElementwiseTask& task);

/// Adds the subcommand, which sets `action`.
void add_device_elementwise(CLI::App& app, Action& action);

}  // namespace bench
