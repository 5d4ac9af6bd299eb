// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "common/options.hpp"
#include "networks/generate.hpp"

namespace bench
{

namespace
{

struct GenerateSettings : Options
{
  GenerateTask task;
  std::vector<std::string> weights{"float"};
  std::string torch = "auto";
};

void print_generate_header(const Job& job, int repeats)
{
  std::printf(
      "Tokens a second in all sequences together, with a cache; PyTorch's on all cores. GB/s "
      "at which\nthe weights for a token are read, and of a copy by all ranks that reads and "
      "writes as many bytes.\n%s, %s; medians of %d\n%-9s %-24s %-7s %-8s %9s %9s %6s %9s "
      "%9s %6s\n",
      job.backend(), job.blas().c_str(), repeats, "scheme", "mesh", "scalar", "weights", "cubist",
      "PyTorch", "ratio", "GB/s", "copy GB/s", "ratio");
}

void print_generate_row(const GenerateTask& task, const GenerateRow& row)
{
  const auto sequences = static_cast<double>(task.sequences);
  std::printf("%-9s %-24s %-7s %-8s %9.2f", row.scheme.c_str(), row.mesh.c_str(),
              task.on.scalar.c_str(), task.weights.c_str(), sequences / row.token.median);
  if (row.torch.measured())
    std::printf(" %9.2f %6.2f", sequences / row.torch.times.median,
                row.torch.times.median / row.token.median);
  else
    std::printf(" %9s %6s", "-", "-");
  std::printf(" %9.2f %9.2f %6.2f\n", 1e-9 * row.weight_bytes / row.token.median,
              1e-9 * row.weight_bytes / row.copy.median, row.copy.median / row.token.median);
  std::fflush(stdout);
}

nlohmann::json generate_json(const Job& job, const GenerateTask& task, const GenerateRow& row)
{
  const auto torch = [&](const auto& value) {
    return row.torch.measured() ? nlohmann::json(value) : nlohmann::json();
  };
  return {{"scheme", row.scheme},
          {"mesh", row.mesh},
          {"backend", job.backend()},
          {"ranks", task.on.ranks},
          {"nodes", job.nodes},
          {"scalar", task.on.scalar},
          {"weights", task.weights},
          {"repeats", task.on.repeats},
          {"warm_up", task.on.warm_up},
          {"sequences", task.sequences},
          {"prompt", task.prompt},
          {"tokens", task.tokens},
          {"layers", task.layers},
          {"width", task.width},
          {"heads", task.heads},
          {"vocabulary", task.vocabulary},
          {"seconds", row.token.median},
          {"min_seconds", row.token.min},
          {"weight_bytes", row.weight_bytes},
          {"copy_seconds", row.copy.median},
          {"copy_min_seconds", row.copy.min},
          {"ratio", row.copy.median / row.token.median},
          {"torch_seconds", torch(row.torch.times.median)},
          {"torch_min_seconds", torch(row.torch.times.min)},
          {"torch_threads", torch(row.torch.threads)},
          {"torch_version", torch(row.torch.version)}};
}

void run_generate(const Job& job, const GenerateSettings& options)
{
  const bool table = job.first && options.json != "-";
  if (table) print_generate_header(job, options.repeats);
  auto result = describe(job, "generate");
  bool torch = true;
  for (const auto& setting : settings_of(job, options))
    for (const auto& weights : options.weights)
    {
      auto task = options.task;
      task.on = setting;
      task.weights = weights;
      task.torch = options.torch == "auto";
      const auto row = generate_on(job, task);
      if (!row) continue;
      if (table) print_generate_row(task, *row);
      result["rows"].push_back(generate_json(job, task, *row));
      torch = row->torch.measured();
    }
  if (table && !torch && options.torch == "auto")
    std::printf("PyTorch is not installed (Debian: python3-torch), so there is nothing to compare "
                "with.\n");
  if (job.first) write_json(result, options.json);
}

}  // namespace

std::string torch_options(const GenerateTask& task)
{
  std::ostringstream line;
  line << "--sequences " << task.sequences << " --prompt " << task.prompt << " --tokens "
       << task.tokens << " --layers " << task.layers << " --width " << task.width << " --heads "
       << task.heads << " --vocabulary " << task.vocabulary << " --scalar " << task.on.scalar;
  return line.str();
}

void add_generate(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<GenerateSettings>();
  options->scalars = {"float"};
  auto* command = app.add_subcommand(
      "generate",
      "measures how fast a GPT generates tokens, beside PyTorch and the bandwidth of a copy");
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  const auto add = [&](const char* name, std::size_t& value) {
    return command->add_option(name, value)->check(CLI::PositiveNumber)->capture_default_str();
  };
  add("--sequences", options->task.sequences);
  add("--prompt", options->task.prompt);
  add("--tokens", options->task.tokens)->check(CLI::Range(2, 1 << 20));
  add("--layers", options->task.layers);
  add("--width", options->task.width);
  add("--heads", options->task.heads);
  add("--vocabulary", options->task.vocabulary);
  command
      ->add_option("--weights", options->weights,
                   "how linear layers store weights, one after another")
      ->delimiter(',')
      ->check(CLI::IsMember({"float", "bfloat16", "half", "q8"}))
      ->capture_default_str();
  command->add_option("--torch", options->torch, "auto: also measure PyTorch if it is installed")
      ->check(CLI::IsMember({"auto", "off"}))
      ->capture_default_str();
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_generate(job, *options); }; });
}

}  // namespace bench
