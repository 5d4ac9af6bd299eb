// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "mlp.hpp"
#include "options.hpp"

namespace bench
{

namespace
{

struct MlpOptions : Options
{
  std::size_t tokens = 4096;
  std::vector<std::size_t> layers{1024, 4096, 1024};
  std::string activation = "gelu";
  std::string optimizer = "none";
};

void run_mlp(const Job& job, const MlpOptions& options)
{
  cubist::require<cubist::ShapeError>(
      options.layers.size() >= 2, "got --layers with ", options.layers.size(),
      " size, which makes no layer; give those of the input, between the layers and of the output");
  std::vector<MlpTask> tasks;
  for (auto setting : settings_of(job, options))
    for (const bool overlap : overlaps(job, options))
    {
      setting.overlap = overlap;
      tasks.push_back(
          {setting, options.tokens, options.layers, options.activation, options.optimizer});
    }

  std::string what = std::to_string(options.tokens) + ":";
  for (const auto size : options.layers) what += " " + std::to_string(size);
  const bool table = job.first && options.json != "-";
  if (table) print_header(job, options.repeats, "tokens: layers");
  if (table) std::printf(" overlap\n");
  auto result = describe(job, "mlp");
  for (const auto& task : tasks)
  {
    const auto row = job.mpi ? mlp_on_mpi(task) : mlp_on_threads(task);
    if (!row) continue;
    if (table) print_row(job, task.on, *row, what);
    if (table) std::printf(" %7s\n", task.on.overlap ? "on" : "off");
    std::fflush(stdout);
    auto json = to_json(job, task.on, *row);
    json["tokens"] = task.tokens;
    json["layers"] = task.layers;
    json["activation"] = task.activation;
    json["optimizer"] = task.optimizer;
    result["rows"].push_back(json);
  }
  if (job.first) write_json(result, options.json);
}

}  // namespace

void add_mlp(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MlpOptions>();
  auto* command = app.add_subcommand(
      "mlp", "forward and backward of a network, beside its products by BLAS on all cores");
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  command->add_option("--tokens", options->tokens)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--layers", options->layers, "features: input, between layers, output")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--activation", options->activation)
      ->check(CLI::IsMember({"gelu", "relu", "silu", "identity"}))
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "a step of it, too")
      ->check(CLI::IsMember({"none", "sgd", "adam"}))
      ->capture_default_str();
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_mlp(job, *options); }; });
}

}  // namespace bench
