// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "networks/mlp.hpp"

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
  std::size_t recompute = 0;
  std::string input_gradient = "off";
};

void print_mlp_header(const Job& job, int repeats)
{
  if (job.gpus > 0)
    std::printf(
        "Shares of a step, in %% of a rank's time by its compute stream's clock: gemm; element-wise\n"
        "work; waiting for communication. PyTorch: its speed relative to cuBLAS's, on one GPU.\n");
  else
    std::printf(
        "Shares of a step, in %% of a rank's time: gemm; element-wise work; communication while the\n"
        "rank has a processor (copies, sums, polling for messages); waiting in communication without\n"
        "one, for other ranks or for a core. Anything else is missing from 100. PyTorch: its speed\n"
        "relative to BLAS's, on all cores.\n");
  print_header(job, repeats, "tokens: layers");
  std::printf(" %3s %7s %5s %5s %5s %5s %8s\n", "dX", "overlap", "gemm", "elem.", "comm.", "wait",
              "PyTorch");
}

void print_mlp_row(const Job& job, const MlpTask& task, const Row& row)
{
  print_row(job, task.on, row, std::to_string(task.tokens) + ":" + sizes_text(task.layers));
  const auto& shares = row.cost.shares;
  std::printf(" %3s %7s %5.1f %5.1f %5.1f %5.1f", task.input_gradient ? "yes" : "no",
              task.on.overlap ? "on" : "off", 100 * shares.gemm, 100 * shares.elementwise,
              100 * shares.communication, 100 * shares.waiting);
  end_row_with_torch(row);
}

nlohmann::json mlp_json(const Job& job, const MlpTask& task, const Row& row)
{
  auto json = to_json(job, task.on, row);
  json["tokens"] = task.tokens;
  json["layers"] = task.layers;
  json["activation"] = task.activation;
  json["optimizer"] = task.optimizer;
  json["recompute"] = task.recompute;
  json["input_gradient"] = task.input_gradient;
  json["gemm_share"] = row.cost.shares.gemm;
  json["elementwise_share"] = row.cost.shares.elementwise;
  json["communication_share"] = row.cost.shares.communication;
  json["waiting_share"] = row.cost.shares.waiting;
  add_torch(json, row);
  return json;
}

void run_mlp(const Job& job, const MlpOptions& options)
{
  cubist::require<cubist::ShapeError>(
      options.layers.size() >= 2, "got --layers with ", options.layers.size(),
      " size, which makes no layer; give the sizes of the input, between the layers, and of the "
      "output");
  std::vector<MlpTask> tasks;
  for (auto setting : settings_of(job, options))
    for (const bool overlap : overlaps(job, options))
    {
      setting.overlap = overlap;
      for (const bool dx : {false, true})
        if (options.input_gradient == "both" || dx == (options.input_gradient == "on"))
          tasks.push_back({setting, options.tokens, options.layers, options.activation,
                           options.optimizer, options.recompute, dx, options.torch == "auto",
                           job.gpus > 0});
    }
  require_one_trace(options, tasks.size());

  const bool table = job.first && options.json != "-";
  if (table) print_mlp_header(job, options.repeats);
  auto result = describe(job, "mlp");
  bool torch = true;
  for (const auto& task : tasks)
  {
    const auto row = mlp_on(job, task);
    if (!row) continue;
    if (table) print_mlp_row(job, task, *row);
    result["rows"].push_back(mlp_json(job, task, *row));
    torch = row->torch.measured();
  }
  if (table && !torch) explain_no_torch(job, options);
  if (job.first) write_json(result, options.json);
}

}  // namespace

std::string torch_options(const MlpTask& task)
{
  std::ostringstream line;
  line << "--tokens " << task.tokens << " --layers ";
  for (std::size_t i = 0; i < task.layers.size(); ++i)
    line << (i == 0 ? "" : ",") << task.layers[i];
  line << " --activation " << task.activation << " --optimizer " << task.optimizer << " --scalar "
       << task.on.scalar << (task.input_gradient ? " --input-gradient" : "");
  return line.str();
}

void add_mlp(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MlpOptions>();
  auto* command = app.add_subcommand(
      "mlp",
      "measures forward and backward of a network beside the same products by BLAS on all cores");
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  add_trace_option(*command, *options);
  command->add_option("--tokens", options->tokens, "the number of tokens")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--layers,--widths", options->layers,
                   "the features of the input, between the layers, and of the output")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--activation", options->activation, "the activation function")
      ->check(CLI::IsMember({"gelu", "gelu_tanh", "relu", "silu", "identity"}))
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer, "also measure a step of this optimizer")
      ->check(CLI::IsMember({"none", "sgd", "adam"}))
      ->capture_default_str();
  command
      ->add_option("--recompute", options->recompute,
                   "the layers of a segment whose activations backward recomputes; 0 keeps all")
      ->capture_default_str();
  command
      ->add_option("--input-gradient", options->input_gradient,
                   "whether backward also computes the gradient of the network's input")
      ->check(CLI::IsMember({"on", "off", "both"}))
      ->capture_default_str();
  add_torch_option(*command, *options);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_mlp(job, *options); }; });
}

}  // namespace bench
