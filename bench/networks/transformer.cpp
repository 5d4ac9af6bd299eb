// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "meter/breakdown.hpp"
#include "networks/transformer.hpp"

namespace bench
{

namespace
{

struct TransformerOptions : Options
{
  TransformerTask task;
  std::string breakdown_of;
};

/// A file that is removed at the end of the scope.
class TemporaryFile
{
 public:
  explicit TemporaryFile(const char* name)
      : path_{std::filesystem::temp_directory_path() / (name + std::to_string(getpid()) + ".json")}
  {
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile()
  {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] int cores_of_machine()
{
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void print_transformer_header(const Job& job, int repeats)
{
  std::printf(
      "Shares of a step, in %% of a rank's time: gemm; element-wise work; communication; waiting.\n"
      "BLAS: the products of a step alone. PyTorch: its speed relative to BLAS's, on %s. The\n"
      "formula for elements sent leaves out the embedding.\n",
      job.gpus > 0 ? "one GPU" : "all cores");
  print_header(job, repeats, "tokens");
  std::printf(" %7s %5s %5s %5s %5s %8s\n", "overlap", "gemm", "elem.", "comm.", "wait", "PyTorch");
}

void print_transformer_row(const Job& job, const TransformerTask& task, const Row& row)
{
  print_row(job, task.on, row,
            std::to_string(task.sequences) + " x " + std::to_string(task.length));
  const auto& shares = row.cost.shares;
  std::printf(" %7s %5.1f %5.1f %5.1f %5.1f", task.on.overlap ? "on" : "off", 100 * shares.gemm,
              100 * shares.elementwise, 100 * shares.communication, 100 * shares.waiting);
  end_row_with_torch(row);
}

nlohmann::json transformer_json(const Job& job, const TransformerTask& task, const Row& row)
{
  auto json = to_json(job, task.on, row);
  json["sequences"] = task.sequences;
  json["length"] = task.length;
  json["layers"] = task.layers;
  json["width"] = task.width;
  json["heads"] = task.heads;
  json["vocabulary"] = task.vocabulary;
  json["kind"] = task.llama ? "llama" : "gpt";
  json["forward_only"] = task.forward;
  json["optimizer"] = task.optimizer;
  json["gemm_share"] = row.cost.shares.gemm;
  json["elementwise_share"] = row.cost.shares.elementwise;
  json["communication_share"] = row.cost.shares.communication;
  json["waiting_share"] = row.cost.shares.waiting;
  add_torch(json, row);
  return json;
}

void run_transformer(const Job& job, const TransformerOptions& options)
{
  if (!options.breakdown_of.empty())
  {
    if (!job.first) return;
    auto result = describe(job, "breakdown");
    result["rows"].push_back(break_down(read_profile(options.breakdown_of),
                                        {.cores = cores_of_machine()}, options.json != "-"));
    return write_json(result, options.json);
  }
  cubist::require<cubist::ArgumentError>(
      !options.task.breakdown || job.gpus == 0,
      "got --breakdown for ranks with GPUs, but their work is queued, so the host's time says "
      "nothing about it; profile them with nsys, or measure ranks on processors");
  const auto settings = settings_of(job, options);
  require_one_trace(options, settings.size() * overlaps(job, options).size());
  const bool table = job.first && options.json != "-";
  if (table) print_transformer_header(job, options.repeats);
  auto result = describe(job, "transformer");
  bool torch = true;
  for (auto setting : settings)
    for (const bool overlap : overlaps(job, options))
    {
      auto task = options.task;
      setting.overlap = overlap;
      task.on = setting;
      task.torch = options.torch == "auto" && !task.llama && !task.forward;
      task.gpu = job.gpus > 0;
      const TemporaryFile file{"cubist_bench-transformer-"};
      if (task.breakdown && task.on.trace.empty()) task.on.trace = file.path();
      const auto row = transformer_on(job, task);
      if (!row) continue;
      if (table) print_transformer_row(job, task, *row);
      auto json = transformer_json(job, task, *row);
      if (task.breakdown)
        json["breakdown"] = break_down(read_profile(task.on.trace),
                                       {.cores = cores_of_machine() * job.machines,
                                        .blas_seconds = row->blas.median / job.machines,
                                        .machine = row->machine},
                                       table);
      result["rows"].push_back(std::move(json));
      torch = !task.torch || row->torch.measured();
    }
  if (table && !torch) explain_no_torch(job, options);
  if (job.first) write_json(result, options.json);
}

}  // namespace

std::string torch_options(const TransformerTask& task)
{
  std::ostringstream line;
  line << "--sequences " << task.sequences << " --length " << task.length << " --layers "
       << task.layers << " --width " << task.width << " --heads " << task.heads << " --vocabulary "
       << task.vocabulary << " --optimizer " << task.optimizer << " --scalar " << task.on.scalar;
  return line.str();
}

void add_transformer(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<TransformerOptions>();
  options->scalars = {"float"};
  auto* command = app.add_subcommand(
      "transformer",
      "measures a training step of a GPT beside the same products by BLAS on all cores");
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  add_trace_option(*command, *options);
  command
      ->add_option_function<std::string>(
          "--model", [options](const std::string& name) { options->task.take_model(name); },
          "take the sizes of GPT-2 small on 4 x 512 tokens, or of a block of Llama 3.2 1B; other "
          "options override them")
      ->check(CLI::IsMember({"gpt2", "llama-block"}))
      ->trigger_on_parse();
  command->add_flag("--forward", options->task.forward,
                    "measure only forward and loss of a model without gradients");
  command->add_flag(
      "--breakdown", options->task.breakdown,
      "print where the time of a step goes: products beside BLAS alone, passes beside copies, and "
      "waiting, from a trace of up to three more steps");
  command
      ->add_option(
          "--breakdown-of", options->breakdown_of,
          "measure nothing, but print the breakdown of a file that --breakdown --trace wrote")
      ->check(CLI::ExistingFile);
  const auto add = [&](const char* name, std::size_t& value) {
    command->add_option(name, value)->check(CLI::PositiveNumber)->capture_default_str();
  };
  add("--sequences", options->task.sequences);
  add("--length", options->task.length);
  add("--layers", options->task.layers);
  add("--width", options->task.width);
  add("--heads", options->task.heads);
  add("--vocabulary", options->task.vocabulary);
  command
      ->add_option("--optimizer", options->task.optimizer, "also measure a step of this optimizer")
      ->check(CLI::IsMember({"none", "adamw"}))
      ->capture_default_str();
  add_torch_option(*command, *options);
  command->callback([options, &action] {
    action = [options](const Job& job) { run_transformer(job, *options); };
  });
}

}  // namespace bench
