// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "gpu/step.hpp"

namespace bench
{

namespace
{

struct StepOptions : Options
{
  std::vector<std::string> steps{"16:256,1024,256:float",
                                 "64:64,128,10:float",
                                 "1024:1024,1024,1024,1024,1024:float",
                                 "1024:1024,1024,1024,1024,1024:bfloat16",
                                 "8192:4096,16384,4096:bfloat16",
                                 "8192:8192,8192:float"};
  std::string activation = "gelu_tanh";
};

/// Parses a task, such as "16:256,1024,256:float".
StepTask parse(const std::string& text)
{
  StepTask task;
  std::istringstream in{text};
  char colon = 0;
  bool good = in >> task.tokens && in >> colon && colon == ':';
  for (char next = ','; good && next == ',';)
  {
    std::size_t size = 0;
    good = in >> size && in >> next && (next == ',' || next == ':');
    task.layers.push_back(size);
  }
  cubist::require<cubist::ArgumentError>(
      good && in >> task.scalar && task.layers.size() >= 2, "got the step ", text,
      ", which cannot be read; give tokens:features,features…:scalar, as in 16:256,1024,256:float");
  return task;
}

std::string layers_text(const StepTask& task, const char* between)
{
  std::string text;
  for (const auto size : task.layers) text += (text.empty() ? "" : between) + std::to_string(size);
  return text;
}

nlohmann::json step_json(const StepTask& task, const StepTimes& times)
{
  nlohmann::json json{{"tokens", task.tokens},
                      {"layers", task.layers},
                      {"scalar", task.scalar},
                      {"activation", task.activation},
                      {"ranks", task.ranks},
                      {"repeats", task.repeats},
                      {"warm_up", task.warm_up},
                      {"forward_seconds", times.forward.median},
                      {"backward_seconds", times.backward.median},
                      {"optimizer_seconds", times.optimizer.median},
                      {"seconds", times.run.median},
                      {"min_seconds", times.run.min},
                      {"replayed_seconds", times.replayed.median},
                      {"replayed_min_seconds", times.replayed.min}};
  for (std::size_t i = 0; i < torch_modes.size(); ++i)
  {
    const auto& torch = times.torch[i];
    json["torch_" + torch_modes[i] + "_seconds"] =
        torch.measured() ? nlohmann::json(torch.times.median) : nlohmann::json();
    if (torch.measured()) json["torch_version"] = torch.version;
  }
  return json;
}

void print_row(const StepTask& task, const StepTimes& times)
{
  const auto us = [](const Times& t) { return 1e6 * t.median; };
  std::printf("%7zu %-26s %-8s %9.1f %9.1f %9.1f %9.1f %9.1f", task.tokens,
              layers_text(task, "-").c_str(), task.scalar.c_str(), us(times.forward),
              us(times.backward), us(times.optimizer), us(times.run), us(times.replayed));
  for (const auto& torch : times.torch)
    if (torch.measured())
      std::printf(" %9.1f", us(torch.times));
    else
      std::printf(" %9s", "-");
  std::printf("\n");
  std::fflush(stdout);
}

void run_steps(const Job& job, const StepOptions& options)
{
  std::vector<StepTask> tasks;
  for (const auto& text : options.steps)
  {
    auto task = parse(text);
    task.activation = options.activation;
    task.ranks = ranks_of(job, options, 1);
    task.repeats = options.repeats;
    task.warm_up = std::max(options.warm_up, 2);  // the first step runs, the second is captured
    task.torch = options.torch == "auto" && task.ranks == 1;
    tasks.push_back(task);
  }
  const bool table = job.first && options.json != "-";
  if (table)
    std::printf("Steps with Adam, in us from an idle GPU to an idle GPU, medians of %d\n"
                "%7s %-26s %-8s %9s %9s %9s %9s %9s %9s %9s %9s\n",
                options.repeats, "tokens", "layers", "scalar", "forward", "backward", "Adam",
                "step", "replayed", "PyTorch", "its graph", "compiled");
  auto result = describe(job, "step");
  for (const auto& task : tasks)
  {
    const auto times = step_on(job, task);
    if (!times) continue;
    if (table) print_row(task, *times);
    result["rows"].push_back(step_json(task, *times));
  }
  if (job.first) write_json(result, options.json);
}

}  // namespace

std::string torch_options(const StepTask& task, const std::string& mode)
{
  return "--tokens " + std::to_string(task.tokens) + " --layers " + layers_text(task, ",") +
         " --activation " + task.activation + " --scalar " + task.scalar + " --mode " + mode;
}

void add_step(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<StepOptions>();
  options->repeats = 20;
  options->warm_up = 3;
  auto& command = *app.add_subcommand("step", "measures training steps, run and replayed");
  command.add_option("--steps", options->steps, "tokens:features,features,...:scalar of each step")
      ->capture_default_str();
  command.add_option("--activation", options->activation, "the activation between the layers")
      ->check(CLI::IsMember({"gelu", "gelu_tanh", "relu", "silu", "identity"}))
      ->capture_default_str();
  add_torch_option(command, *options);
  add_ranks_option(command, *options);
  add_run_options(command, *options);
  command.callback(
      [&action, options] { action = [options](const Job& job) { run_steps(job, *options); }; });
}

}  // namespace bench
