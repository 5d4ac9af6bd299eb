// SPDX-License-Identifier: BSD-3-Clause
// Prints which scheme and mesh to use for a network on a number of ranks, and why, and draws how
// they cut it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/machine/find_machine.hpp>
#include <cubist/machine/machine_json.hpp>
#include <cubist/nn/transformer/config.hpp>
#include <cubist/plan/energy.hpp>
#include <cubist/plan/planner.hpp>
#include <cubist/plan/saves.hpp>

#include "draw_svg.hpp"
#include "draw_text.hpp"
#include "plan_table.hpp"
#include "simulate.hpp"
#include "strict_options.hpp"

namespace
{

struct Options
{
  std::vector<std::size_t> layers;
  std::string model;
  std::string weights = "float";
  std::size_t tokens = 0;
  std::size_t sequence = 0;
  int ranks = 0;
  std::vector<std::string> machines;
  std::string scalar = "float";
  std::string scheme;
  bool data_parallel = true;
  std::string method = "automatic";
  std::vector<int> mesh;
  std::size_t top = 0;
  bool forward = false;
  std::string optimizer = "adamw";
  std::size_t lora = 0;
  bool sharded = false;
  std::size_t recompute = 0;
  bool context_parallel = true;
  bool pipeline = true;
  std::size_t micro_batches = 0;
  std::size_t pieces = 0;
  bool memory = false;
  std::optional<double> failure_hours;
  std::optional<double> run_tokens;
  std::size_t simulate = 0;
  bool all_replicas = false;
  std::string trace;
  bool json = false;
  bool draw = false;
  std::string svg;
};

/// Strips `front`, "Pipeline<" or "DataParallel<", from the name of a scheme.
std::string without(const std::string& front, const std::string& scheme)
{
  if (scheme.size() <= front.size() || !cubist::same_name(scheme.substr(0, front.size()), front))
    return scheme;
  return scheme.substr(front.size(), scheme.size() - front.size() - 1);
}
std::string without_stages(const std::string& scheme) { return without("Pipeline<", scheme); }

/// Returns the name of a scheme without its stages and its data axis.
std::string without_data(const std::string& scheme)
{
  return without("DataParallel<", without_stages(scheme));
}

bool is_in_stages(const Options& options)
{
  return cubist::has_scheme<cubist::PipelineCatalogue>(options.scheme);
}

/// Whether a plan uses the requested scheme, with or without stages and a data axis.
bool is_requested(const cubist::Plan& plan, const Options& options)
{
  return cubist::same_name(plan.scheme, options.scheme) ||
         cubist::same_name(without_data(plan.scheme), options.scheme);
}

/// Whether a plan has several meshes side by side.
bool has_replicas(const cubist::Plan& plan)
{
  const bool has_stages = without_stages(plan.scheme) != plan.scheme;
  return without_data(plan.scheme) != without_stages(plan.scheme) &&
         plan.extents[has_stages ? 1 : 0] > 1;
}

/// Throws the error for a mesh that is not among the plans.
/// @param plan_in_stages  throws what is wrong with a pipeline of these extents, if it is invalid
template <class PlanInStages>
[[noreturn]] void throw_invalid_mesh(const Options& options, PlanInStages plan_in_stages)
{
  const auto check = [&]<class S>() {
    const cubist::Machine machine;
    static_cast<void>(cubist::detail::empty_plan<S>(cubist::extents_from_list<S>(options.mesh),
                                                    options.ranks, machine, {}));
  };
  const auto throw_pipeline = [&]<class P>() {
    const auto extents = cubist::extents_from_list<P>(options.mesh);
    cubist::require<cubist::ArgumentError>(
        options.data_parallel || extents[1] == 1, "got --no-data-parallel with ", extents[1],
        " meshes side by side in --mesh, so nothing would be planned; leave one of them out");
    plan_in_stages.template operator()<P>(extents);
    throw cubist::MeshError{"got a mesh of " + options.scheme + " that does not use all of " +
                            std::to_string(options.ranks) +
                            " ranks, so it is not among the plans; give the number of stages, the "
                            "number of meshes side by side, and the extents of each, whose product "
                            "is the number of ranks"};
  };
  if (is_in_stages(options))
  {
    cubist::require<cubist::ArgumentError>(
        !options.mesh.empty(), "got no plan of ", options.scheme, " for ", options.ranks,
        " ranks: it needs 2 or more stages, each with at least one block; use more ranks, fewer "
        "--pieces, and no more --micro-batches than sequences; with several pieces, make "
        "--micro-batches a multiple of the stages");
    cubist::with_scheme<cubist::PipelineCatalogue>(options.scheme, throw_pipeline);
  }
  cubist::with_scheme<cubist::WholeCatalogue>(options.scheme, [&]<class S>() {
    if (options.data_parallel && options.mesh.size() == S::Axes::count + 1)
      check.template operator()<cubist::DataParallel<S>>();
    else
      check.template operator()<S>();
  });
  throw cubist::MeshError{"got a mesh of " + options.scheme + " whose data axis, " +
                          std::to_string(options.mesh.front()) + ", does not divide " +
                          std::to_string(options.ranks) +
                          " ranks into two or more meshes, so it is not among the plans; use a "
                          "divisor of the ranks that is at least 2, or a mesh without that axis"};
}

/// Chooses the plans to print from sorted ones: those on the requested scheme and mesh, the
/// requested number of them, or the first of each scheme.
class Selection
{
 public:
  explicit Selection(const Options& options)
      : options_{options},
        each_{options.top == 0 && options.scheme.empty()},
        most_{options.top == 0 ? 10 : options.top}
  {
  }

  /// Whether it takes the next plan.
  [[nodiscard]] bool takes(const cubist::Plan& plan)
  {
    if (!is_candidate(plan)) return false;
    if (each_) return seen_.insert(without_data(plan.scheme)).second;
    return taken_++ < most_;
  }
  [[nodiscard]] bool is_candidate(const cubist::Plan& plan) const
  {
    return (options_.scheme.empty() || is_requested(plan, options_)) &&
           (options_.mesh.empty() || plan.extents == options_.mesh);
  }

 private:
  const Options& options_;
  bool each_;
  std::size_t most_;
  std::size_t taken_ = 0;
  std::set<std::string> seen_;
};

/// Erases plans that are not printed, except for the first two, which are the rivals of all others,
/// and the first in stages, for check_stages().
void keep_selected(std::vector<cubist::Plan>& plans, const Options& options)
{
  Selection selection{options};
  std::size_t number = 0;
  bool has_stages = false;
  std::erase_if(plans, [&](const cubist::Plan& plan) {
    const bool is_first_in_stages = !has_stages && plan.stages > 1 && selection.is_candidate(plan);
    has_stages = has_stages || is_first_in_stages;
    const bool is_rival = number++ < 2;
    return !selection.takes(plan) && !is_first_in_stages && !is_rival;
  });
}

/// Whether the memory of the plans compares with that of a simulated step, which runs AdamW.
bool compares_memory(const Options& options)
{
  return (options.forward || options.optimizer.starts_with("adam")) &&
         (options.scalar == "float" || options.scalar == "double");
}

void draw(const cubist::Plan& plan, const Options& options,
          const std::vector<cubist::ProductSize>& layers)
{
  if (!options.draw && options.svg.empty()) return;
  cubist::Plan of_stage = plan;  // the first stage, if there are several
  of_stage.scheme = without_stages(plan.scheme);
  const bool has_stages = of_stage.scheme != plan.scheme;
  if (has_stages) of_stage.extents.erase(of_stage.extents.begin());
  auto picture = cubist::with_scheme<cubist::WholeCatalogue>(of_stage.scheme, [&]<class S>() {
    return cubist::picture_of<S>(cubist::extents_of<S>(of_stage), layers);
  });
  if (has_stages)
    picture.title += ", the first of " + std::to_string(plan.extents.front()) + " stages";
  if (options.draw)
  {
    const bool colours = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
    std::cout << '\n' << cubist::draw_text(picture, colours);
  }
  if (options.svg.empty()) return;
  std::ofstream file{options.svg};
  file << cubist::draw_svg(picture);
  file.flush();
  cubist::require<cubist::DataError>(file.good(), "cannot write ", options.svg,
                                     ", so the drawing would be lost; pass --svg another path");
}

/// Reads a model from a config.json, named by its path or by its folder, or returns the published
/// model of this name.
cubist::TransformerConfig read_model(const std::string& name)
{
  const std::filesystem::path path{name};
  if (std::filesystem::is_regular_file(path) || std::filesystem::exists(path / "config.json"))
    return cubist::read_config(path);
  return cubist::transformer_model(name);
}

/// Returns the size of an element of this type, in bytes.
std::size_t scalar_bytes(const std::string& name)
{
  return name == "double" ? sizeof(double) : name == "float" ? sizeof(float) : sizeof(short);
}

/// What is planned: layers, or a transformer, whose first product is that of Q, K and V.
class Network
{
 public:
  explicit Network(const Options& options)
  {
    if (options.model.empty())
    {
      layers_ = cubist::mlp_layers(options.tokens, options.layers);
      return;
    }
    const auto model = read_model(options.model);
    step_.emplace(cubist::TransformerStep{
        model, cubist::token_batch(model, options.tokens, options.sequence, options.model)});
    layers_ = {{.m = options.tokens,
                .n = model.query_width() + 2 * model.key_value_width(),
                .k = model.width}};
  }

  /// Returns the number of elements of all parameters.
  [[nodiscard]] double parameters() const
  {
    if (step_) return static_cast<double>(step_->model.parameters());
    double sum = 0;
    for (const auto& w : layers_) sum += (static_cast<double>(w.k) + 1) * static_cast<double>(w.n);
    return sum;
  }
  /// Returns the layers that are drawn.
  [[nodiscard]] const std::vector<cubist::ProductSize>& drawn() const { return layers_; }
  /// Returns the number of elements in M h.
  [[nodiscard]] double unit() const
  {
    return static_cast<double>(layers_.front().m) * static_cast<double>(layers_.front().k);
  }
  /// Returns the plans that may be printed, and their rivals, sorted.
  /// @param all  whether to return all plans
  [[nodiscard]] std::vector<cubist::Plan> plans(const Options& options,
                                                const cubist::Machine& machine,
                                                const cubist::PlanOptions& requested,
                                                bool all) const
  {
    std::function<void(std::vector<cubist::Plan>&)> keep;
    if (!all) keep = [&](std::vector<cubist::Plan>& plans) { keep_selected(plans, options); };
    const auto of = [&](const auto& network) {
      return cubist::detail::sorted_plans(network, options.ranks, machine, requested, keep);
    };
    return step_ ? of(*step_) : of(layers_);
  }
  /// Plans stages of these extents, so that the planner reports what is wrong with them.
  /// @throws the planner's error
  template <class P>
  void plan_in_stages(const typename P::Axes::Array& extents, int ranks,
                      const cubist::Machine& machine, const cubist::PlanOptions& options) const
  {
    static_cast<void>(cubist::plan_on<P>(extents, step_.value(), ranks, machine, options));
  }
  /// Returns the largest batch, in tokens, that fits on a plan's mesh.
  [[nodiscard]] std::size_t largest_batch(const cubist::Plan& plan, const cubist::Machine& machine,
                                          const cubist::PlanOptions& options) const
  {
    return step_ ? step_->batch.length * cubist::largest_batch(plan, *step_, machine, options)
                 : cubist::largest_batch(plan, layers_, machine, options);
  }
  /// Returns what a step costs by simulation.
  [[nodiscard]] cubist::SimulatedCost simulated(const cubist::Plan& plan, const Options& options,
                                                const cubist::Machine& machine,
                                                const std::string& trace) const
  {
    const bool training = !options.forward;
    if (step_)
      return cubist::simulated_cost(plan,
                                    {*step_, training, options.sharded, options.recompute,
                                     options.context_parallel ? 0U : 1U, options.all_replicas,
                                     trace, options.lora},
                                    machine);
    const std::size_t bytes = scalar_bytes(options.scalar);
    return cubist::simulated_cost(plan,
                                  cubist::SimulatedStep{options.layers, options.tokens, training,
                                                        bytes <= sizeof(float),
                                                        bytes < sizeof(float), options.sharded,
                                                        options.recompute, options.all_replicas},
                                  machine);
  }
  void add_to(nlohmann::json& json, const Options& options) const
  {
    if (!step_)
    {
      json["layers"] = options.layers;
      return;
    }
    json["model"] = options.model;
    json["parameters"] = step_->model.parameters();
    json["sequence"] = step_->batch.length;
  }

 private:
  std::vector<cubist::ProductSize> layers_;
  std::optional<cubist::TransformerStep> step_;
};

/// Simulates the first plans, sorts them by the result, and returns what they cost, in the new
/// order.
std::vector<cubist::SimulatedCost> simulate(const Network& network,
                                            std::vector<cubist::Plan>& plans,
                                            const Options& options, const cubist::Machine& machine)
{
  using Row = std::pair<cubist::Plan, cubist::SimulatedCost>;
  std::vector<Row> rows;
  for (std::size_t i = 0; i < std::min(options.simulate, plans.size()); ++i)
    rows.emplace_back(plans[i],
                      network.simulated(plans[i], options, machine, i == 0 ? options.trace : ""));
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair{!a.first.fits_memory, a.second.seconds} <
           std::pair{!b.first.fits_memory, b.second.seconds};
  });
  std::vector<cubist::SimulatedCost> costs;
  for (std::size_t i = 0; i < rows.size(); ++i)
  {
    plans[i] = rows[i].first;
    costs.push_back(rows[i].second);
  }
  return costs;
}

/// Returns how many values an optimizer keeps for each element of a parameter.
int moments_of(const std::string& optimizer)
{
  return optimizer == "none" ? 0 : optimizer == "sgd" ? 1 : 2;
}

/// Checks that no option makes another one ineffective.
/// @throws cubist::ArgumentError if one does
void check_together(const CLI::App& app, const Options& options)
{
  using cubist::require;
  const bool is_model = !options.model.empty();
  require<cubist::ArgumentError>(
      options.simulate == 0 || !is_model || options.scalar == "float",
      "got --simulate for a model in ", options.scalar,
      ", but models are simulated in float; use --scalar float, or leave --simulate out");
  require<cubist::ArgumentError>(
      options.simulate == 0 || !is_model || compares_memory(options),
      "got --simulate for a model with ", "--optimizer ", options.optimizer,
      ", but models are simulated with AdamW; use --optimizer adamw, or leave --simulate out");
  const bool has_data = cubist::has_scheme<cubist::DataCatalogue>(options.scheme);
  require<cubist::ArgumentError>(!is_in_stages(options) || is_model, "got ", options.scheme,
                                 " for layers, but stages are planned for models only; use "
                                 "--model, or a scheme without stages");
  require<cubist::ArgumentError>(
      options.pipeline || !is_in_stages(options), "got --no-pipeline with --scheme ",
      options.scheme, ", which has stages, so nothing would be planned; leave one of them out");
  require<cubist::ArgumentError>(!options.pipeline || app.count("--pipeline") == 0 || !has_data,
                                 "got --pipeline with --scheme ", options.scheme,
                                 ", which has no stages, so it would be "
                                 "ignored; use --scheme ",
                                 without_data(options.scheme), ", or leave it out");
  require<cubist::ArgumentError>(
      options.data_parallel || !has_data, "got --no-data-parallel with --scheme ", options.scheme,
      ", which has meshes side by side, so nothing would be planned; leave one of them out");
}

/// Checks that options for stages are given only if some plan has stages.
/// @throws cubist::ArgumentError if none has
void check_stages(const CLI::App& app, const std::vector<cubist::Plan>& plans)
{
  for (const char* option : {"--micro-batches", "--pieces"})
    cubist::require<cubist::ArgumentError>(
        app.count(option) == 0 ||
            std::any_of(plans.begin(), plans.end(), [](const auto& p) { return p.stages > 1; }),
        "got ", option,
        ", but no plan has stages, so it would be ignored; leave it out, or use 2 or more ranks, "
        "no more pieces than blocks, no more micro-batches than sequences, and with several "
        "pieces a number of micro-batches that is a multiple of the stages");
}

void run(const CLI::App& app, const Options& options)
{
  cubist::Machine machine;
  for (const auto& path : options.machines)
    machine = cubist::read_machine(cubist::find_machine(path), machine);
  const Network network{options};
  const cubist::PlanOptions requested{
      .scalar_bytes = scalar_bytes(options.scalar),
      .training = !options.forward,
      // One mesh is compared with those of its scheme: on many ranks, all schemes have millions of
      // meshes.
      .scheme = options.mesh.empty() ? "" : without_data(options.scheme),
      .data_parallel =
          options.data_parallel || cubist::has_scheme<cubist::DataCatalogue>(options.scheme),
      .method =
          options.method == "collectives" ? cubist::Method::collectives : cubist::Method::automatic,
      .moments = moments_of(options.optimizer),
      .muon = options.optimizer == "muon",
      .lora = options.lora,
      .sharded = options.sharded,
      .recompute = options.recompute,
      .context_parallel = options.context_parallel ? 0U : 1U,
      .pipeline = options.pipeline && !options.model.empty(),
      .micro_batches = options.micro_batches,
      .pieces = options.pieces,
      .weights = cubist::stored_weights_of(options.weights)};
  if (!options.scheme.empty() && !is_in_stages(options))
    cubist::with_scheme<cubist::WholeCatalogue>(options.scheme, []<class S>() {});
  const bool without_replicas =
      !options.data_parallel && options.pipeline && !options.model.empty();
  auto all = network.plans(options, machine, requested, without_replicas);
  if (without_replicas)
  {
    std::erase_if(all, has_replicas);
    cubist::detail::add_reasons(all, network.unit(), machine);
  }
  Selection selection{options};
  std::erase_if(all, [&](const cubist::Plan& plan) { return !selection.is_candidate(plan); });
  if (all.empty())
    throw_invalid_mesh(options, [&]<class P>(const typename P::Axes::Array& extents) {
      network.plan_in_stages<P>(extents, options.ranks, machine, requested);
    });
  check_stages(app, all);
  auto plans = std::move(all);
  std::erase_if(plans, [&](const cubist::Plan& plan) { return !selection.takes(plan); });
  const auto simulated = simulate(network, plans, options, machine);
  std::vector<std::size_t> batches;
  if (options.memory || options.json)
    for (const auto& plan : plans)
      batches.push_back(network.largest_batch(plan, machine, requested));

  std::vector<cubist::SavePlan> saves;
  if (options.failure_hours)
    for (const auto& plan : plans)
      saves.push_back(cubist::plan_saves(plan, network.parameters(), machine, requested,
                                         3600 * *options.failure_hours));

  std::vector<cubist::PlanEnergy> energies;
  if (options.run_tokens)
    for (const auto& plan : plans) energies.push_back(cubist::energy_of(plan, machine));
  const double steps = options.run_tokens.value_or(0) / static_cast<double>(options.tokens);

  if (options.json)
  {
    nlohmann::json json{{"tokens", options.tokens},        {"ranks", options.ranks},
                        {"scalar", options.scalar},        {"training", !options.forward},
                        {"optimizer", options.optimizer},  {"sharded", options.sharded},
                        {"recompute", options.recompute},  {"lora", options.lora},
                        {"weights", options.weights},      {"machine", cubist::to_json(machine)},
                        {"plans", nlohmann::json::array()}};
    network.add_to(json, options);
    for (std::size_t i = 0; i < plans.size(); ++i)
    {
      auto& plan = json["plans"].emplace_back(cubist::to_json(plans[i], network.unit(), machine));
      plan["largest_batch"] = batches[i];
      if (i < saves.size()) plan["saves"] = cubist::to_json(saves[i]);
      if (i < energies.size())
        plan["energy"] = {{"step", cubist::to_json(energies[i])},
                          {"run", cubist::to_json(steps * energies[i])}};
      if (i >= simulated.size()) continue;
      plan["simulated_seconds"] = simulated[i].seconds;
      if (compares_memory(options)) plan["simulated_memory"] = simulated[i].memory;
      if (!simulated[i].folding.empty()) plan["folding"] = simulated[i].folding;
    }
    std::cout << json.dump(2) << '\n';
  }
  else
  {
    cubist::print_table(plans, network.unit(), simulated, options.scalar, machine);
    if (options.memory)
      cubist::print_memory(
          plans, batches,
          compares_memory(options) ? simulated : std::vector<cubist::SimulatedCost>{}, machine);
    if (!saves.empty()) cubist::print_saves(plans, saves);
    if (!energies.empty()) cubist::print_energies(plans, energies, steps);
  }
  std::fflush(stdout);
  draw(plans.front(), options, network.drawn());
}

}  // namespace

int main(int argc, char** argv)
try
{
  CLI::App app{
      "Sorts cubist's schemes and meshes by the time that they are predicted to take for a "
      "network. The table lists the words (elements) and messages that a rank sends in one step; M "
      "h is the number of tokens times the width of the first layer."};
  Options options;
  auto* network = app.add_option_group("network")->require_option(1);
  network
      ->add_option("--layers", options.layers,
                   "an MLP, by the features of its input, its hidden layers and its output")
      ->delimiter(',');
  auto* model =
      network->add_option("--model", options.model,
                          "a training step of a transformer: a folder with a config.json, or " +
                              cubist::transformer_model_names());
  app.add_option("--sequence", options.sequence,
                 "the tokens of each sequence; by default the longest that the model was made for")
      ->needs(model)
      ->check(cubist::strict_options::positive);
  app.add_option("--tokens", options.tokens, "the number of tokens: the rows of the input")
      ->required();
  app.add_option("--ranks", options.ranks, "the number of ranks; a plan may leave some idle")
      ->required();
  app.add_option(
      "--machine", options.machines,
      "the machine: a JSON file, written by hand or by cubist_bench machine, or the name of a file "
      "in machines/, such as dgx_h100; a later file overrides earlier ones");
  app.add_option("--scalar", options.scalar, "the type of the elements")
      ->check(CLI::IsMember({"float", "double", "bfloat16", "half"}))
      ->capture_default_str();
  auto* scheme =
      app.add_option("--scheme", options.scheme,
                     cubist::scheme_names() +
                         "; or DataParallel<...>, or, for a model, Pipeline<DataParallel<...>>");
  auto* mesh = app.add_option("--mesh", options.mesh, "the extents of the only mesh to plan")
                   ->delimiter(',')
                   ->needs(scheme);
  app.add_option(
         "--top", options.top,
         "print this many of the fastest plans; by default the fastest mesh of each scheme, or the "
         "10 fastest of --scheme")
      ->check(cubist::strict_options::positive)
      ->excludes(mesh);
  app.add_flag("--data-parallel,!--no-data-parallel", options.data_parallel,
               "whether to plan several meshes side by side, too, each for a part of the batch: "
               "DataParallel<...>, with their number before the extents of each");
  app.add_flag(
         "--pipeline,!--no-pipeline", options.pipeline,
         "whether to plan a model in stages, too: Pipeline<DataParallel<...>>, with the number "
         "of stages before the extents of each")
      ->needs(model);
  app.add_option(
         "--micro-batches", options.micro_batches,
         "the number of micro-batches of a step in stages; by default the fastest number that "
         "divides the sequences")
      ->check(cubist::strict_options::positive)
      ->needs(model);
  app.add_option("--pieces", options.pieces,
                 "the number of pieces of blocks on each stage; by default the fastest one up to 4")
      ->check(cubist::strict_options::positive)
      ->needs(model);
  auto* forward = app.add_flag("--forward", options.forward, "forward only, no training");
  auto* weights = app.add_option("--weights", options.weights,
                                 "how a model that is not trained stores the weights of its linear "
                                 "layers")
                      ->check(CLI::IsMember({"float", "bfloat16", "half", "q8"}))
                      ->capture_default_str()
                      ->needs(model)
                      ->needs(forward);
  app.add_option("--optimizer", options.optimizer,
                 "the optimizer, whose state counts as memory; Muon's products count, too")
      ->check(CLI::IsMember({"adamw", "adam", "muon", "sgd", "none"}))
      ->capture_default_str()
      ->excludes(forward);
  app.add_option(
         "--lora", options.lora,
         "train only LoRA's matrices of this rank beside all linear layers; 0: train all weights")
      ->capture_default_str()
      ->needs(model)
      ->excludes(forward);
  app.add_flag("--sharded", options.sharded,
               "replicas of a parameter share its optimizer's state (ZeRO-1)")
      ->excludes(forward);
  app.add_option(
         "--recompute", options.recompute,
         "how many layers or blocks make up a segment, whose activations backward computes again; "
         "0 keeps all")
      ->capture_default_str()
      ->excludes(forward);
  app.add_flag(
         "--context-parallel,!--no-context-parallel", options.context_parallel,
         "whether ranks share the sequences of a model if there are fewer sequences than parts of "
         "rows")
      ->needs(model);
  app.add_flag("--memory", options.memory,
               "also print the memory of a rank by use, and the largest batch that fits");
  app.add_option(
         "--save", options.failure_hours,
         "also print how often to save a checkpoint if the whole job fails once in this many "
         "hours on average, by Young's formula")
      ->check(CLI::PositiveNumber)
      ->excludes(forward);
  app.add_option("--run", options.run_tokens,
                 "also print the energy and the price of a step, and of a run of this many tokens; "
                 "the machine's file lists a node's idle_watts, busy_watts and hour_price")
      ->check(CLI::PositiveNumber);
  app.add_option("--method", options.method,
                 "automatic: ranks read each other's memory if all of a mesh are on one node")
      ->check(CLI::IsMember({"automatic", "collectives"}))
      ->capture_default_str();
  auto* simulate = app.add_flag(
      "--simulate{5}", options.simulate,
      "also run the first five plans, or the first N with --simulate=N, in simulated time, and "
      "sort them by it; the program is the model in float, or an MLP with biases and GELU");
  weights->excludes(simulate);
  app.add_flag(
         "--all-replicas", options.all_replicas,
         "simulate all replicas along a data axis, even if they do the same work, so that one "
         "could stand for all; with n replicas, this takes n times as long")
      ->needs(simulate);
  app.add_option("--trace", options.trace,
                 "write a trace of the first plan's simulated step to this file, for "
                 "bench/scripts/draw_trace and ui.perfetto.dev")
      ->needs(simulate)
      ->needs(model);
  app.add_flag("--json", options.json, "print JSON instead of the table");
  auto* drawn = app.add_flag("--draw", options.draw,
                             "draw how the first plan cuts the layers, or a model's first product");
  drawn->excludes("--json");
  app.add_option("--svg", options.svg, "write the same drawing to this file, as SVG");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  check_together(app, options);
  if (options.simulate > 0) cubist::start_simulator(argv);
  run(app, options);
}
catch (const std::exception& error)
{
  std::cerr << "cubist_plan: " << error.what() << '\n';
  return 1;
}
