// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>

#include "common/options.hpp"
#include "planner/papers.hpp"
#include "planner/papers_tables.hpp"
#include "planner/published.hpp"

namespace bench
{

namespace
{

struct PapersOptions : Options
{
  std::vector<std::string> papers{"optimus",     "tesseract", "tesseract-16",
                                  "tesseract-4", "3d",        "3d-mixed"};
  std::string machine;
  std::string machines;
  std::size_t layers = 1;
  bool own_links = false;
  bool published = false;
  std::vector<std::string> models = published_model_names();
  int most_gpus = 128;
};

/// Seconds for one sequence.
struct PerSequence
{
  double forward = 0;
  double backward = 0;
  double step = 0;
};
constexpr std::array parts{std::pair{"forward", &PerSequence::forward},
                           std::pair{"backward", &PerSequence::backward},
                           std::pair{"step", &PerSequence::step}};

PerSequence per_sequence(const PaperTimes& times, const PaperRun& run)
{
  const double scale =
      double(layers_of_papers) / double(run.layers) / static_cast<double>(run.sequences);
  return {times.forward * scale, times.backward * scale, (times.forward + times.backward) * scale};
}

std::string mesh_text(const std::vector<int>& mesh)
{
  std::string s;
  for (const int extent : mesh) s.append(s.empty() ? "" : "x").append(std::to_string(extent));
  return s;
}

/// Returns the machine with a link for each GPU, which gets its share of the node's bandwidth.
cubist::Machine with_own_links(cubist::Machine machine)
{
  const double gpus = machine.ranks_per_node();
  machine.cores /= gpus;
  machine.memory /= gpus;
  machine.node_memory_bandwidth /= gpus;
  machine.links.front().ranks = 1;
  machine.links[1].bandwidth /= gpus;
  machine.name += ", a link for each";
  return machine;
}

/// Reads machines from files, each once.
class Machines
{
 public:
  explicit Machines(const PapersOptions& options)
      : options_{options}
  {
  }

  [[nodiscard]] std::filesystem::path file(const PaperRow& row) const
  {
    if (!options_.machine.empty()) return cubist::find_machine(options_.machine);
    if (options_.machines.empty())
      return cubist::find_machine(row.machine, {CUBIST_BENCH_MACHINES});
    return std::filesystem::path{options_.machines} / (row.machine + ".json");
  }

  const cubist::Machine& of(const PaperRow& row)
  {
    const std::string file = this->file(row);
    const auto found = machines_.find(file);
    if (found != machines_.end()) return found->second;
    auto machine = cubist::read_machine(file);
    if (options_.own_links && machine.links.size() > 1)
      machine = with_own_links(std::move(machine));
    return machines_.emplace(file, std::move(machine)).first->second;
  }

 private:
  const PapersOptions& options_;
  std::map<std::string, cubist::Machine> machines_;
};

/// The times of one row: as cubist would run it, as the authors' code does, and as published.
struct RowTimes
{
  PerSequence ours;
  PerSequence theirs;
  PerSequence published;
  std::string machine;  // the name of its file
};

RowTimes simulate_row(const Paper& paper, const PaperRow& row, const PapersOptions& options,
                      Machines& machines, nlohmann::json& json)
{
  const auto& machine = machines.of(row);
  RowTimes result;
  result.machine = machines.file(row).stem().string();
  result.published = {row.forward, row.backward, row.step};
  for (const bool theirs : {false, true})
  {
    const PaperRun run{.scheme = row.scheme,
                       .mesh = row.mesh,
                       .sequences = row.sequences,
                       .width = paper.width,
                       .heads = paper.heads,
                       .layers = options.layers,
                       .overlap = !theirs,
                       .recompute = theirs,
                       .tile = theirs ? row.tile : 1};
    const auto times = simulate_paper_run(run, machine);
    const auto mine = per_sequence(times, run);
    (theirs ? result.theirs : result.ours) = mine;
    const double layers = double(layers_of_papers) / double(run.layers);
    json["rows"].push_back({{"paper", paper.name},
                            {"run", theirs ? "theirs" : "cubist"},
                            {"machine", machine.name},
                            {"scheme", row.scheme},
                            {"mesh", mesh_text(row.mesh)},
                            {"sequences", row.sequences},
                            {"length", run.length},
                            {"width", run.width},
                            {"heads", run.heads},
                            {"layers", layers_of_papers},
                            {"simulated_layers", run.layers},
                            {"overlap", run.overlap},
                            {"recompute", run.recompute},
                            {"tile", run.tile},
                            {"forward", mine.forward},
                            {"backward", mine.backward},
                            {"published_forward", row.forward},
                            {"published_backward", row.backward},
                            {"published_step", row.step},
                            {"words", times.words * layers},
                            {"product_seconds", times.products * layers},
                            {"pass_seconds", times.passes * layers},
                            {"wait_seconds", times.waits * layers}});
  }
  return result;
}

void print_rows(const Paper& paper, const std::vector<RowTimes>& all)
{
  std::printf("%s\nwidth %zu, %zu heads, %zu layers, sequences of 512; ms a sequence\n",
              paper.title.c_str(), paper.width, paper.heads, layers_of_papers);
  std::printf("%-11s %-6s %9s %-14s %18s %18s %18s\n", "", "", "", "", "as cubist runs",
              "as they ran", "published");
  std::printf("%-11s %-6s %9s %-14s", "scheme", "mesh", "sequences", "machine");
  for (int i = 0; i < 3; ++i) std::printf(" %8s %9s", "forward", "backward");
  std::printf("\n");
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    const auto& row = paper.rows[i];
    std::printf("%-11s %-6s %9zu %-14s", row.scheme.c_str(), mesh_text(row.mesh).c_str(),
                row.sequences, all[i].machine.c_str());
    for (const auto* t : {&all[i].ours, &all[i].theirs, &all[i].published})
      std::printf(" %8.1f %9.1f", 1e3 * t->forward, 1e3 * t->backward);
    std::printf("\n");
  }
}

/// Prints the ratio of each row's times to those of the last row.
void print_ratios(const Paper& paper, const std::vector<RowTimes>& all, nlohmann::json& json)
{
  std::printf("%-22s %-9s %18s %18s %18s\n", "ratio", "", "as cubist runs", "as they ran",
              "published");
  for (std::size_t i = 0; i + 1 < all.size(); ++i)
    for (const auto& [name, part] : parts)
    {
      const auto ratio = [&, member = part](PerSequence RowTimes::*run) {
        return (all[i].*run).*member / ((all.back().*run).*member);
      };
      const double published = ratio(&RowTimes::published);
      const double ours = ratio(&RowTimes::ours);
      const double theirs = ratio(&RowTimes::theirs);
      const auto difference = [&](double mine) { return 100 * (mine / published - 1); };
      const std::string over = paper.rows[i].scheme + " / " + paper.rows.back().scheme;
      std::printf("%-22s %-9s %9.2f (%+3.0f %%) %9.2f (%+3.0f %%) %18.2f\n", over.c_str(), name,
                  ours, difference(ours), theirs, difference(theirs), published);
      json["ratios"].push_back({{"paper", paper.name},
                                {"ratio", over},
                                {"part", name},
                                {"cubist", ours},
                                {"theirs", theirs},
                                {"published", published}});
    }
  std::printf("\n");
}

void run_papers(const Job& job, const PapersOptions& options)
{
  cubist::require<cubist::ArgumentError>(!job.mpi, "got ", job.processes,
                                         " MPI processes, but one process simulates all ranks; "
                                         "start cubist_bench papers without mpiexec");
  if (options.published) return run_published(options.models, options.most_gpus, options.json);
  Machines machines{options};
  auto json = describe(job, "papers");
  for (const auto& paper : all_papers())
  {
    if (std::find(options.papers.begin(), options.papers.end(), paper.name) == options.papers.end())
      continue;
    std::vector<RowTimes> all;
    for (const auto& row : paper.rows)
      all.push_back(simulate_row(paper, row, options, machines, json));
    print_rows(paper, all);
    print_ratios(paper, all, json);
  }
  write_json(json, options.json);
}

}  // namespace

void add_papers(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<PapersOptions>();
  auto* command = app.add_subcommand(
      "papers", "simulates the tables of the papers on 2D, 2.5D and 3D parallelism");
  command->add_option("--papers", options->papers, "the tables to simulate")
      ->delimiter(',')
      ->check(CLI::IsMember(options->papers))
      ->capture_default_str();
  command->add_option(
      "--machine", options->machine,
      "the machine for all rows instead of their own: a file, or the name of a file in machines/");
  command->add_option(
      "--machines", options->machines,
      "the folder of the rows' machines; by default machines/ around the program or the current "
      "folder");
  command
      ->add_option("--layers", options->layers,
                   "the number of simulated layers; times are scaled to the papers' 24")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--own-links", options->own_links,
                    "give each GPU its own link, with its part of the node's bandwidth");
  auto* published = command->add_flag(
      "--published", options->published,
      "instead predict transformer steps whose times others have published, beside those times");
  command->add_option("--models", options->models, "the models of these steps")
      ->delimiter(',')
      ->check(CLI::IsMember(options->models))
      ->needs(published)
      ->capture_default_str();
  command->add_option("--most-gpus", options->most_gpus, "leave out steps on more GPUs than this")
      ->check(CLI::PositiveNumber)
      ->needs(published)
      ->capture_default_str();
  command->add_option("--json", options->json, "write the results to this file");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_papers(job, *options); }; });
}

}  // namespace bench
