// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>

#include "common/options.hpp"
#include "planner/planner.hpp"
#include "products/matmul.hpp"

namespace bench
{

namespace
{

struct PlannerOptions : Options
{
  std::vector<int> ranks_list{4};
  std::vector<std::string> shapes;
  std::size_t divide = 1;
  int final_repeats = 9;
  double sample_seconds = 0.1;
  bool forward = false;
  bool all_ranks = false;
  bool data_parallel = false;
  std::string machine;
};

/// Products that are square, or flat, tall or skinny in each dimension, or of uneven size.
const std::vector<std::string> twenty_shapes{
    "768x768x768",  "512x512x512",  "1536x1536x256", "1536x256x1536", "256x1536x1536",
    "3072x384x384", "384x3072x384", "384x384x3072",  "8192x192x192",  "192x8192x192",
    "192x192x8192", "1500x450x650", "500x1111x777",  "3072x768x192",  "768x3072x192",
    "192x768x3072", "64x2048x2048", "2048x64x2048",  "2048x2048x64",  "1000x1000x1000"};

std::string on(const cubist::Plan& plan)
{
  std::string s = plan.scheme;
  for (std::size_t i = 0; i < plan.extents.size(); ++i)
    s += (i == 0 ? " " : "x") + std::to_string(plan.extents[i]);
  return plan.idle == 0 ? s : s + ", " + std::to_string(plan.idle) + " idle";
}

void print_machine(const Job& job, const PlannerTask& task, const cubist::Machine& m)
{
  const auto& link = task.nodes > 1 ? m.across() : m.inside();
  std::printf("\n%s, %d ranks on %d node%s: a core multiplies %.1f GFLOP/s, touches %.1f GB/s; "
              "a message takes %.1f us, then %.2f GB/s, "
              "of which %.0f %% is hidden\n\n",
              job.backend(), task.ranks, task.nodes, task.nodes == 1 ? "" : "s",
              m.rates_of(sizeof(double)).largest() / 1e9, m.memory_bandwidth / 1e9,
              link.latency * 1e6, link.bandwidth / 1e9,
              task.nodes > 1 ? 100 * m.hidden(task.ranks) : 0);
}

void print(const Job& job, const PlannerTask& task, const PlannerResult& result)
{
  print_machine(job, task, result.machine);
  std::printf(
      "| m x n x k | meshes | planned | predicted ms | measured ms | fastest | ms | planned "
      "/ fastest |\n|---|---|---|---|---|---|---|---|\n");
  int good = 0;
  for (const auto& row : result.rows)
  {
    std::printf("| %s | %zu | %s | %.2f | %.2f | %s | %.2f | %.2f |\n", to_string(row.size).c_str(),
                row.all.size(), on(row.choice.plan).c_str(), 1e3 * row.choice.plan.seconds(),
                1e3 * row.choice.seconds, on(row.fastest.plan).c_str(), 1e3 * row.fastest.seconds,
                row.ratio());
    if (row.ratio() <= 1.1) ++good;
  }
  std::printf("\nwithin 10 %% of the fastest: %d of %zu\n", good, result.rows.size());
  std::fflush(stdout);
}

nlohmann::json to_json(const Candidate& c)
{
  return {{"scheme", c.plan.scheme},
          {"extents", c.plan.extents},
          {"idle", c.plan.idle},
          {"method", to_string(c.plan.method)},
          {"predicted_seconds", c.plan.seconds()},
          {"seconds", c.seconds},
          {"products", c.plan.time.products},
          {"inside", c.plan.time.inside},
          {"across", c.plan.time.across},
          {"words_per_rank", c.plan.words},
          {"messages_per_rank", c.plan.messages}};
}

void add_rows(nlohmann::json& json, const Job& job, const PlannerTask& task,
              const PlannerResult& result)
{
  for (const auto& row : result.rows)
  {
    auto all = nlohmann::json::array();
    for (const auto& c : row.all) all.push_back(to_json(c));
    json["rows"].push_back({{"backend", job.backend()},
                            {"ranks", task.ranks},
                            {"nodes", task.nodes},
                            {"overlap", task.overlap},
                            {"scalar", "double"},
                            {"training", task.training},
                            {"all_ranks", task.all_ranks},
                            {"data_parallel", task.data_parallel},
                            {"method", to_string(task.method)},
                            {"repeats", task.repeats},
                            {"m", row.size.m},
                            {"n", row.size.n},
                            {"k", row.size.k},
                            {"choice", to_json(row.choice)},
                            {"fastest", to_json(row.fastest)},
                            {"seconds", row.choice.seconds},
                            {"ratio", row.ratio()},
                            {"all", all}});
  }
}

PlannerTask task_of(const Job& job, const PlannerOptions& options, int ranks)
{
  PlannerTask task;
  task.ranks = ranks;
  task.nodes = job.nodes;
  task.machines = job.machines;
  task.overlap = options.overlap != "off";
  return task;
}

void run_planner(const Job& job, const PlannerOptions& options)
{
  const bool table = job.first && options.json != "-";
  auto json = describe(job, "planner");
  auto ranks_list = options.ranks_list;
  if (job.mpi) ranks_list = {job.processes};
  for (const int ranks : ranks_list)
  {
    PlannerTask task = task_of(job, options, ranks);
    task.repeats = options.repeats;
    task.final_repeats = options.final_repeats;
    task.sample_seconds = options.sample_seconds;
    task.training = !options.forward;
    task.all_ranks = options.all_ranks;
    task.data_parallel = options.data_parallel;
    task.method = parse_method(options.method);
    for (const auto& text : options.shapes.empty() ? twenty_shapes : options.shapes)
    {
      const auto s = parse_shape(text);
      const auto divided = [&](std::size_t n) {
        return std::max<std::size_t>(1, n / options.divide);
      };
      task.sizes.push_back({divided(s.m), divided(s.n), divided(s.k)});
    }
    if (!options.machine.empty())
      task.machine = cubist::read_machine(cubist::find_machine(options.machine));
    const auto result = job.mpi ? planner_on_mpi(task) : planner_on_threads(task);
    if (!result) continue;
    if (table) print(job, task, *result);
    add_rows(json, job, task, *result);
  }
  if (job.first) write_json(json, options.json);
}

}  // namespace

void add_planner(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<PlannerOptions>();
  options->repeats = 3;
  auto* command = app.add_subcommand(
      "planner", "measures the planner's choice beside every other mesh, in double");
  add_run_options(*command, *options);
  command
      ->add_option("--ranks", options->ranks_list,
                   "the numbers of ranks on threads; under MPI all processes are ranks")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--shapes", options->shapes, "the products, as MxNxK; by default twenty of them")
      ->delimiter(',');
  command->add_option("--divide", options->divide, "divide all sizes by this number")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option(
          "--final-repeats", options->final_repeats,
          "the number of alternating runs of the planner's choice and of the fastest others")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--sample-seconds", options->sample_seconds,
                   "the shortest time for each of these runs")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--forward", options->forward, "measure forward only");
  command->add_flag("--all-ranks", options->all_ranks,
                    "measure only meshes that leave no rank idle");
  command->add_flag("--data-parallel", options->data_parallel,
                    "also measure meshes with a data axis");
  command->add_option("--machine", options->machine,
                      "the machine's figures, a JSON file; by default they are measured");
  add_method_option(*command, *options);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_planner(job, *options); }; });
}

}  // namespace bench
