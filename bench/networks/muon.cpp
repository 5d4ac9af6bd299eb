// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

#include "common/options.hpp"
#include "networks/muon.hpp"

namespace bench
{

namespace
{

struct MuonBenchOptions : Options
{
  std::vector<std::size_t> layers = std::vector<std::size_t>(9, 1024);
  std::vector<std::string> ways{"automatic", "home", "replicated", "distributed"};
};

void run_muon(const Job& job, const MuonBenchOptions& options)
{
  cubist::require<cubist::ShapeError>(
      options.layers.size() >= 2, "got --layers with ", options.layers.size(),
      " size, which makes no layer; give those of the input, between the layers and of the output");
  const bool table = job.first && options.json != "-";
  if (table)
  {
    print_header(job, options.repeats, "way: layers");
    std::printf("\n");
  }
  auto result = describe(job, "muon");
  for (const auto& setting : settings_of(job, options))
    for (const auto& way : options.ways)
    {
      if (setting.scalar != "float") continue;
      const auto row = muon_on(job, {setting, options.layers, way});
      if (!row) continue;
      std::string what = way + ":";
      for (const auto size : options.layers) what.append(" ").append(std::to_string(size));
      if (table)
      {
        print_row(job, setting, *row, what);
        std::printf("\n");
        std::fflush(stdout);
      }
      auto json = to_json(job, setting, *row);
      json["way"] = way;
      json["layers"] = options.layers;
      result["rows"].push_back(json);
    }
  if (job.first) write_json(result, options.json);
}

}  // namespace

void add_muon(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MuonBenchOptions>();
  auto* command = app.add_subcommand(
      "muon", "measures a step of Muon beside its products by BLAS on all cores, in float");
  options->schemes = {"Summa2D"};
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  command
      ->add_option("--layers", options->layers,
                   "the features of the input, between the layers, and of the output")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--ways", options->ways, "where matrices are orthogonalized")
      ->delimiter(',')
      ->check(CLI::IsMember({"automatic", "home", "replicated", "distributed"}))
      ->capture_default_str();
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_muon(job, *options); }; });
}

}  // namespace bench
