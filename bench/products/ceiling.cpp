// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/plan/meshes.hpp>
#include <cubist/plan/planner.hpp>

#include "common/options.hpp"
#include "common/schemes.hpp"
#include "products/ceiling.hpp"
#include "products/matmul.hpp"

namespace bench
{

namespace
{

struct CeilingOptions : Options
{
  std::vector<int> counts{4, 8};
  std::vector<std::string> shapes{"2048x2048x2048", "4096x4096x4096", "4096x4096x1024",
                                  "4096x1024x4096", "8192x256x256",   "256x256x65536"};
  bool planned = false;
};

/// A scheme with a mesh.
struct SchemeOnMesh
{
  std::string scheme;
  std::vector<int> mesh;
  int ranks;
};

/// Whether one size is so much longer than another that the mesh determines the speed.
bool is_skinny(cubist::ProductSize s)
{
  const auto [least, most] = std::minmax({s.m, s.n, s.k});
  return most >= 16 * least;
}

/// Returns an empty mesh, which stands for the scheme's default, or every mesh of all ranks.
std::vector<std::vector<int>> meshes_of(const std::string& scheme, int ranks, bool every)
{
  if (!fits(scheme, {}, ranks)) return {};
  if (!every) return {{}};
  std::vector<std::vector<int>> meshes;
  cubist::with_scheme(scheme, [&]<class S>() {
    cubist::for_each_mesh<S>(ranks, [&](const typename S::Axes::Array& extents) {
      if (S::Axes::ranks(extents) == ranks) meshes.emplace_back(extents.begin(), extents.end());
    });
  });
  return meshes;
}

/// Returns the planner's choice on one node.
SchemeOnMesh choose_by_planner(cubist::ProductSize size, const CeilingOptions& options,
                               const std::string& scalar, int ranks)
{
  cubist::Machine machine;
  machine.cores = std::max(1U, std::thread::hardware_concurrency());
  machine.links.front().ranks = ranks;
  const auto plan = cubist::plan(size, ranks, machine,
                                 {.scalar_bytes = scalar == "float" ? 4U : 8U,
                                  .training = false,
                                  .method = parse_method(options.method)})
                        .front();
  return {plan.scheme, plan.extents, plan.ranks};
}

std::vector<SchemeOnMesh> candidates(const CeilingOptions& options, cubist::ProductSize size,
                                     const std::string& scalar, int ranks)
{
  if (options.planned) return {choose_by_planner(size, options, scalar, ranks)};
  std::vector<SchemeOnMesh> all;
  for (const auto& scheme : options.schemes.empty() ? usual_schemes : options.schemes)
    for (const auto& mesh : meshes_of(scheme, ranks, is_skinny(size)))
      all.push_back({scheme, mesh, ranks});
  return all;
}

void run_ceiling(const Job& job, const CeilingOptions& options)
{
  const bool table = job.first && options.json != "-";
  auto result = describe(job, "ceiling");
  const auto method = parse_method(options.method);
  // The best ratios for each combination of scheme, ranks, scalar and shape.
  struct Ratios
  {
    double ours = 0;
    double local = 0;
    double paged = 0;
  };
  std::map<std::string, Ratios> best;
  std::vector<std::string> lines;
  if (table)
  {
    print_header(job, options.repeats, "m x n x k");
    std::printf(" %6s %6s%s\n", "local", "paged", options.planned ? " ScaLAPACK" : "");
  }
  for (const int count : options.counts)
    for (const auto& scalar : options.scalars)
      for (const auto& shape : options.shapes)
      {
        if (job.mpi && count > job.processes) continue;
        const auto size = parse_shape(shape);
        for (const auto& [scheme, mesh, ranks] : candidates(options, size, scalar, count))
        {
          const Setting on{.scheme = scheme,
                           .scalar = scalar,
                           .mesh = mesh,
                           .ranks = ranks,
                           .repeats = options.repeats,
                           .warm_up = options.warm_up,
                           .overlap = options.overlap != "off",
                           .method = method};
          const MatmulTask task{on, size, job.mpi && options.planned, true};
          const auto row = matmul_on(job, task);
          if (!row) continue;
          if (table)
          {
            print_row(job, on, *row, to_string(size));
            std::printf(" %6.2f %6.2f", row->local_ratio(job), row->paged_ratio());
            if (options.planned) print_scalapack(*row);
            std::printf("\n");
            std::fflush(stdout);
          }
          auto json = to_json(job, task, *row);
          json["local_seconds"] = row->local.median;
          json["local_ratio"] = row->local_ratio(job);
          json["paged_seconds"] = row->paged.median;
          json["paged_ratio"] = row->paged_ratio();
          result["rows"].push_back(json);
          const auto line = "| " + row->scheme + " | " + std::to_string(count) + " | " + scalar +
                            " | " + to_string(size) + " | ";
          if (best.find(line) == best.end()) lines.push_back(line);
          if (row->ratio(job) > best[line].ours)
            best[line] = {row->ratio(job), row->local_ratio(job), row->paged_ratio()};
        }
      }
  if (table)
  {
    std::printf(
        "\n| scheme | ranks | scalar | m x n x k | ratio to BLAS, best mesh | ranks alone | "
        "BLAS in the engine's memory |\n"
        "|---|---|---|---|---|---|---|\n");
    for (const auto& line : lines)
      std::printf("%s%.2f | %.2f | %.2f |\n", line.c_str(), best[line].ours, best[line].local,
                  best[line].paged);
  }
  if (job.first) write_json(result, options.json);
}

}  // namespace

void add_ceiling(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<CeilingOptions>();
  auto* command = app.add_subcommand(
      "ceiling",
      "measures the speed of every scheme relative to BLAS on all cores, for six shapes");
  add_scheme_options(*command, *options);
  command->add_option("--rank-counts", options->counts, "the numbers of ranks")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--shapes", options->shapes, "the products, as MxNxK")
      ->delimiter(',')
      ->capture_default_str();
  command->add_flag(
      "--planned", options->planned,
      "measure only the planner's choice for each shape, under mpiexec beside ScaLAPACK");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_ceiling(job, *options); }; });
}

}  // namespace bench
