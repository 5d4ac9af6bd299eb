// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>

#include "common/options.hpp"
#include "planner/link_tables.hpp"
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
  std::size_t largest = 0;  // 0: large enough for the full speed
  std::string name = "measured";
  std::string nccl_tests;
  std::string osu;
  std::string machine;
  bool inside = false;
};

void print_machine(const cubist::Machine& machine, const MachineOptions& options)
{
  const auto json = cubist::to_json(machine);
  if (options.json.empty())
    std::printf("%s\n", json.dump(1).c_str());
  else
    write_json(json, options.json);
}

/// Prints a machine with a link that other benchmarks have measured.
void read_machine_of_tables(const MachineOptions& options)
{
  cubist::Machine machine;
  if (!options.machine.empty())
    machine = cubist::read_machine(cubist::find_machine(options.machine));
  cubist::Link& link = options.inside ? machine.links.front() : machine.links.back();
  std::string source;
  const auto read = [&](const std::string& file, const char* what, auto parse) {
    if (file.empty()) return;
    set_link(link, read_link_table(file, parse));
    source += (source.empty() ? "" : ", ") + std::string{what} + " in " + file;
  };
  read(options.nccl_tests, "nccl-tests", read_nccl_tests);
  read(options.osu, "OSU micro-benchmarks", read_osu);
  if (options.name != MachineOptions{}.name) machine.name = options.name;
  machine.source += (machine.source.empty() ? "" : "; ") +
                    (link.name.empty() ? "a link" : link.name) + " from " + source;
  cubist::require_valid(machine);
  print_machine(machine, options);
}

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
  print_machine(*machine, options);
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
                   "the size of the largest products; by default 2048, or 8192 on GPUs")
      ->check(CLI::Range(32, 32768));
  auto* nccl_tests = command->add_option(
      "--nccl-tests", options->nccl_tests,
      "read a link from this file, which nccl-tests printed, and measure nothing");
  auto* osu = command->add_option(
      "--osu", options->osu,
      "read a link from this file, which osu_latency, osu_bw and osu_bibw printed, and measure "
      "nothing");
  command->add_option(
      "--machine", options->machine,
      "where to take the machine's other figures from if a link is read: a file, or "
      "the name of one in machines/");
  command->add_flag("--inside", options->inside,
                    "read the link inside a node, not that between nodes");
  command->callback([options, &action, nccl_tests, osu] {
    const bool reads = nccl_tests->count() + osu->count() > 0;
    cubist::require<cubist::ArgumentError>(
        reads || (options->machine.empty() && !options->inside),
        "got --machine or --inside without a table of a link, so it would be ignored; give "
        "--nccl-tests or --osu, or leave it out");
    action = [options, reads](const Job& job) {
      if (!reads)
        run_machine(job, *options);
      else if (job.first)
        read_machine_of_tables(*options);
    };
  });
}

}  // namespace bench
