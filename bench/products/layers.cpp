// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>
#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "common/options.hpp"
#include "products/layers.hpp"
#include "products/matmul.hpp"

namespace bench
{

namespace
{

struct LayersOptions : Options
{
  std::vector<std::string> shapes{
      "768x768x768",  "1024x1024x1024", "1536x1536x256", "1536x256x1536", "256x1536x1536",
      "3072x384x384", "384x3072x384",   "384x384x3072",  "1500x450x650",  "500x1111x777"};
  double sample_seconds = 0.3;
  std::size_t every = 1;
  std::size_t first = 0;
  std::string simulated;
  std::vector<int> trace_ranks;
};

/// Returns every n-th point of these: each shape on all meshes of all ranks, or on the user's mesh.
std::vector<LayerPoint> points_of(const LayersOptions& options, int ranks,
                                  const std::vector<bool>& overlaps)
{
  const auto& names = options.schemes.empty() ? cubist::scheme_name_list() : options.schemes;
  std::vector<LayerPoint> all;
  for (const auto& shape : options.shapes)
    for (const auto& name : names)
      cubist::with_scheme(name, [&]<class S>() {
        cubist::for_each_mesh<S>(ranks, [&](const auto& extents) {
          const std::vector<int> mesh{extents.begin(), extents.end()};
          if (S::Axes::ranks(extents) != ranks) return;
          if (!options.mesh.empty() && options.mesh != mesh) return;
          for (const bool overlap : overlaps)
            all.push_back({S::name, mesh, parse_shape(shape), overlap});
        });
      });
  std::vector<LayerPoint> chosen;
  for (std::size_t i = options.first; i < all.size(); i += options.every) chosen.push_back(all[i]);
  return chosen;
}

std::string text(const std::vector<int>& mesh)
{
  std::string s;
  for (const int extent : mesh) s.append(s.empty() ? "" : "x").append(std::to_string(extent));
  return s;
}

void run_layers(const Job& job, const LayersOptions& options)
{
  const bool simulated = !options.simulated.empty();
  LayersTask task;
  task.ranks = ranks_of(job, options, 4);
  task.points = points_of(options, task.ranks,
                          options.overlap == "both" ? std::vector{true, false}
                                                    : std::vector{options.overlap == "on"});
  task.repeats = options.repeats;
  task.sample_seconds = options.sample_seconds;
  task.trace = options.trace;
  task.trace_ranks = options.trace_ranks;
  require_one_trace(options, task.points.size());
  auto json = describe(job, "layers");
  const auto seconds = [&]() -> std::optional<std::vector<double>> {
    if (job.mpi) return layers_on_mpi(task);
    if (!simulated) return layers_on_threads(task);
    const auto machine = cubist::read_machine(cubist::find_machine(options.simulated));
    json["machine"] = cubist::to_json(machine);
    return simulate_layers(task, machine);
  }();
  if (!seconds) return;
  const bool table = options.json != "-";
  if (table)
    std::printf("%d ranks, %s\n%-18s %-9s %-16s %-7s %10s\n", task.ranks,
                simulated ? options.simulated.c_str() : job.backend(), "scheme", "mesh",
                "m x n x k", "overlap", "ms");
  for (std::size_t i = 0; i < seconds->size(); ++i)
  {
    const auto& point = task.points[i];
    if (table)
      std::printf("%-18s %-9s %-16s %-7s %10.2f\n", point.scheme.c_str(), text(point.mesh).c_str(),
                  to_string(point.size).c_str(), point.overlap ? "on" : "off", 1e3 * (*seconds)[i]);
    json["rows"].push_back({{"backend", simulated ? "simulated" : job.backend()},
                            {"ranks", task.ranks},
                            {"nodes", job.nodes},
                            {"scalar", "double"},
                            {"repeats", task.repeats},
                            {"scheme", point.scheme},
                            {"mesh", text(point.mesh)},
                            {"m", point.size.m},
                            {"n", point.size.n},
                            {"k", point.size.k},
                            {"overlap", point.overlap},
                            {"seconds", (*seconds)[i]}});
  }
  write_json(json, options.json);
}

}  // namespace

void add_layers(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<LayersOptions>();
  options->repeats = 3;
  auto* command = app.add_subcommand(
      "layers", "measures or simulates forward and backward of a layer on every mesh");
  add_run_options(*command, *options);
  add_ranks_option(*command, *options);
  command
      ->add_option("--mesh", options->mesh,
                   "the extents of one mesh; by default all meshes of the ranks")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
  command->add_option("--schemes", options->schemes, "the schemes; by default all")
      ->delimiter(',')
      ->check(CLI::IsMember(cubist::scheme_name_list(), CLI::ignore_case));
  command->add_option("--shapes", options->shapes, "the products, as MxNxK")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--every", options->every, "measure only every n-th point")
      ->check(CLI::PositiveNumber);
  command->add_option("--first", options->first, "the index of the first measured point");
  command
      ->add_option("--sample-seconds", options->sample_seconds,
                   "the shortest time for a run, which has one step or several")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  auto* simulated =
      command->add_option("--simulated", options->simulated,
                          "predict the seconds on the machine of this file instead of measuring");
  add_trace_option(*command, *options);
  auto* trace = command->get_option("--trace")->needs(simulated);
  command
      ->add_option("--trace-ranks", options->trace_ranks,
                   "the ranks in the trace; by default the first ones")
      ->delimiter(',')
      ->needs(trace);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_layers(job, *options); }; });
}

}  // namespace bench
