// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/machine/machine_json.hpp>

#include "common/options.hpp"
#include "planner/machine.hpp"

namespace bench
{

std::size_t memory_of_host()
{
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

namespace
{

struct MachineOptions : Options
{
  std::size_t largest = 0;  // left out: as large as it takes to be fast
  std::string name = "measured";
};

void run_machine(const Job& job, const MachineOptions& options)
{
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const MachineTask task{.ranks = ranks_of(job, options, cores),
                         .nodes = job.nodes,
                         .machines = job.machines,
                         .largest = options.largest > 0 ? options.largest
                                    : job.gpus > 0      ? std::size_t{8192}
                                                        : std::size_t{2048},
                         .gpu_memory = job.gpu_memory};
  auto machine = machine_on(job, task);
  if (!machine) return;
  machine->name = options.name;
  machine->source = std::string{"cubist_bench machine, "} + job.backend() + ", " +
                    std::to_string(task.ranks) + " ranks on " + std::to_string(job.nodes) +
                    " nodes, " + job.blas();
  const auto json = cubist::to_json(*machine);
  if (options.json.empty())
    std::printf("%s\n", json.dump(1).c_str());
  else
    write_json(json, options.json);
}

}  // namespace

void add_machine(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MachineOptions>();
  auto* command = app.add_subcommand(
      "machine", "measures the figures of this machine, for cubist_plan and the simulator");
  add_ranks_option(*command, *options);
  command->add_option("--json", options->json,
                      "write the machine to this file; by default to standard output");
  command->add_option("--name", options->name, "the name of the machine")->capture_default_str();
  command
      ->add_option("--largest", options->largest,
                   "the size of the largest measured products; by default 2048, or 8192 on GPUs")
      ->check(CLI::Range(32, 32768));
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_machine(job, *options); }; });
}

}  // namespace bench
