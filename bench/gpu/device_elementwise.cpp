// SPDX-License-Identifier: BSD-3-Clause

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "gpu/device_elementwise.hpp"

namespace bench
{

namespace
{

struct DeviceElementwiseOptions
{
  std::vector<std::string> shapes{"8192x8192", "1048576x64", "64x1048576"};
  std::vector<std::string> scalars{"float", "bfloat16"};
  int calls = 100;  // a wait ends up to 0.1 ms after the last call
  std::string json;
};

/// Parses "ROWSxCOLS".
DeviceElementwiseTask task_of(const std::string& shape)
{
  DeviceElementwiseTask task;
  char end = 0;
  const int read = std::sscanf(shape.c_str(), "%zux%zu%c", &task.rows, &task.cols, &end);
  cubist::require<cubist::ArgumentError>(
      read == 2 && task.rows > 0 && task.cols > 0, "got the shape ", shape,
      ", but a matrix has two positive sizes; write it as 8192x8192");
  return task;
}

void run_device_elementwise(const Job& job, const DeviceElementwiseOptions& options)
{
  nlohmann::json json(describe(job, "device_elementwise"));
  const bool print = options.json != "-";
  for (const auto& shape : options.shapes)
    for (const auto& scalar : options.scalars)
    {
      auto task = task_of(shape);
      task.scalar = scalar;
      task.calls = options.calls;
      const auto passes = elementwise_on(job, task);
      if (!passes || !job.first) continue;
      if (print)
        std::printf("%s elements of %s, least of 5 runs of %d\n%-24s %8s %10s %10s %7s\n",
                    shape.c_str(), scalar.c_str(), options.calls, "function", "MB", "GB/s",
                    "copy GB/s", "ratio");
      for (const auto& pass : *passes)
      {
        const double rate = 1e-9 * pass.bytes / pass.seconds;
        const double copy_rate = 1e-9 * pass.bytes / pass.copy_seconds;
        const double ratio = pass.copy_seconds / pass.seconds;
        if (print)
          std::printf("%-24s %8.1f %10.1f %10.1f %7.2f\n", pass.function.c_str(), 1e-6 * pass.bytes,
                      rate, copy_rate, ratio);
        json["rows"].push_back({{"function", pass.function},
                                {"scalar", scalar},
                                {"rows", task.rows},
                                {"cols", task.cols},
                                {"bytes", pass.bytes},
                                {"repeats", options.calls},
                                {"min_seconds", pass.seconds},
                                {"copy_min_seconds", pass.copy_seconds},
                                {"gigabytes_per_second", rate},
                                {"copy_gigabytes_per_second", copy_rate},
                                {"ratio", ratio}});
      }
      std::fflush(stdout);
    }
  if (job.first) write_json(json, options.json);
}

}  // namespace

void add_device_elementwise(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<DeviceElementwiseOptions>();
  auto* command = app.add_subcommand(
      "elementwise",
      "measures maps, folds, sums, losses and optimizers beside copies of as many bytes");
  command->add_option("--shapes", options->shapes, "as ROWSxCOLS")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--scalars", options->scalars)->delimiter(',')->capture_default_str();
  command->add_option("--repeats", options->calls, "the number of calls of a function in a run")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "write the results to this file; - for standard output");
  command->callback([options, &action] {
    action = [options](const Job& job) { run_device_elementwise(job, *options); };
  });
}

}  // namespace bench
