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
      " size, which makes no layer; give the sizes of the input, between the layers, and of the "
      "output");
  const bool table = job.first && options.json != "-";
  if (table)
  {
    std::printf("PyTorch: its speed relative to BLAS's, on all cores.\n");
    print_header(job, options.repeats, "way: layers");
    std::printf(" %8s\n", "PyTorch");
  }
  auto result = describe(job, "muon");
  bool torch = true;
  for (const auto& setting : settings_of(job, options))
    for (const auto& way : options.ways)
    {
      if (setting.scalar != "float") continue;
      const auto row = muon_on(job, {setting, options.layers, way, options.torch == "auto"});
      if (!row) continue;
      torch = row->torch.measured();
      if (table)
      {
        print_row(job, setting, *row, way + ":" + sizes_text(options.layers));
        end_row_with_torch(*row);
      }
      auto json = to_json(job, setting, *row);
      json["way"] = way;
      json["layers"] = options.layers;
      add_torch(json, *row);
      result["rows"].push_back(json);
    }
  if (table && !torch) explain_no_torch(job, options);
  if (job.first) write_json(result, options.json);
}

}  // namespace

void add_muon(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<MuonBenchOptions>();
  auto* command = app.add_subcommand(
      "muon", "measures a step of Muon beside the same products by BLAS on all cores, in float");
  options->schemes = {"Summa2D"};
  add_scheme_options(*command, *options);
  add_mesh_options(*command, *options);
  add_torch_option(*command, *options);
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
