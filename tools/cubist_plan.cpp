// SPDX-License-Identifier: BSD-3-Clause
// Prints which scheme and mesh to use for a network on so many ranks, and why, and draws how they
// cut it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/plan/machine_json.hpp>
#include <cubist/plan/planner.hpp>

#include "draw_svg.hpp"
#include "draw_text.hpp"
#include "simulate.hpp"
#include "simulated_machine.hpp"

namespace
{

struct Options
{
  std::vector<std::size_t> layers;
  std::string model;
  std::size_t tokens = 0;
  std::size_t sequence = 0;
  int ranks = 0;
  std::vector<std::string> machines;
  std::string scalar = "float";
  std::string scheme;
  std::string method = "automatic";
  std::vector<int> mesh;
  std::size_t top = 0;
  bool forward = false;
  bool simulate = false;
  bool json = false;
  bool draw = false;
  std::string svg;
};

std::string mesh_text(const cubist::Plan& plan)
{
  std::string s;
  for (const int e : plan.extents) (s += s.empty() ? "" : ",") += std::to_string(e);
  return s;
}

std::string time_text(double seconds)
{
  const bool long_one = seconds >= 1;
  const bool short_one = seconds < 1e-3;
  const double value = long_one ? seconds : short_one ? 1e6 * seconds : 1e3 * seconds;
  return cubist::detail::three_digits(value) + (long_one ? " s" : short_one ? " us" : " ms");
}

/// Calls f.operator()<S>(extents) for the scheme and mesh of a plan.
template <class F>
void on_scheme_of(const cubist::Plan& plan, F f)
{
  cubist::with_scheme(plan.scheme,
                      [&]<class S>() { f.template operator()<S>(cubist::extents_of<S>(plan)); });
}

/// Throws the error for a mesh that is not among the plans.
void throw_invalid_mesh(const Options& options)
{
  cubist::with_scheme(options.scheme, [&]<class S>() {
    static_cast<void>(cubist::plan_on<S>(cubist::extents_from_list<S>(options.mesh),
                                         cubist::mlp_layers(1, {1, 1}), options.ranks));
  });
}

/// The plans to print.
std::vector<cubist::Plan> select_plans(const std::vector<cubist::Plan>& all, const Options& options)
{
  std::vector<cubist::Plan> plans;
  std::set<std::string> seen;
  const bool each = options.top == 0 && options.scheme.empty();
  const std::size_t most = options.top != 0 ? options.top : each ? all.size() : 10;
  for (const auto& plan : all)
  {
    if (!options.scheme.empty() && !cubist::same_name(plan.scheme, options.scheme)) continue;
    if (!options.mesh.empty() && plan.extents != options.mesh) continue;
    if (each && !seen.insert(plan.scheme).second) continue;
    if (plans.size() < most) plans.push_back(plan);
  }
  if (plans.empty()) throw_invalid_mesh(options);
  return plans;
}

/// @param simulated the times of the first plans by simulation; none: no such column
void print_table(const std::vector<cubist::Plan>& plans, double unit,
                 const std::vector<double>& simulated)
{
  const auto column = [&](const std::string& text) {
    return simulated.empty() ? ""
                             : cubist::detail::join({std::string(10 - text.size(), ' '), text});
  };
  std::printf("%-18s %-10s %5s %9s%s %11s %8s %9s %10s  %s\n", "scheme", "mesh", "idle", "time",
              column("simulated").c_str(), "words/rank", "in M h", "messages", "GiB/rank", "why");
  for (std::size_t i = 0; i < plans.size(); ++i)
  {
    const auto& plan = plans[i];
    std::printf("%-18s %-10s %5d %9s%s %11.4g %8.3g %9.4g %10.3g  %s\n", plan.scheme.c_str(),
                mesh_text(plan).c_str(), plan.idle, time_text(plan.seconds()).c_str(),
                column(i < simulated.size() ? time_text(simulated[i]) : "-").c_str(), plan.words,
                plan.words / unit, plan.messages, plan.memory / (1 << 30), plan.reason.c_str());
  }
  if (simulated.empty()) return;
  const auto best = static_cast<std::size_t>(std::min_element(simulated.begin(), simulated.end()) -
                                             simulated.begin());
  std::printf("the fastest by simulation: %s on %s\n", plans[best].scheme.c_str(),
              mesh_text(plans[best]).c_str());
}

const char* method_name(cubist::Method method)
{
  return method == cubist::Method::direct ? "direct" : "collectives";
}

nlohmann::json to_json(const cubist::Plan& plan, double unit)
{
  return {{"scheme", plan.scheme},
          {"mesh", plan.extents},
          {"ranks", plan.ranks},
          {"idle", plan.idle},
          {"method", method_name(plan.method)},
          {"seconds", plan.seconds()},
          {"product_seconds", plan.time.products},
          {"inside_seconds", plan.time.inside},
          {"across_seconds", plan.time.across},
          {"pass_seconds", plan.time.passes},
          {"words_per_rank", plan.words},
          {"words_per_rank_in_tokens_times_width", plan.words / unit},
          {"messages_per_rank", plan.messages},
          {"flops_per_rank", plan.flops},
          {"padding", plan.padding},
          {"memory_per_rank", plan.memory},
          {"fits_memory", plan.fits_memory},
          {"note", plan.note},
          {"reason", plan.reason}};
}

void draw(const cubist::Plan& plan, const Options& options, cubist::ProductSize size)
{
  on_scheme_of(plan, [&]<class S>(const typename S::Axes::Array& extents) {
    if (options.draw)
    {
      const bool colours = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
      std::cout << '\n' << cubist::draw_text<S>(extents, size, colours);
    }
    if (options.svg.empty()) return;
    std::ofstream file{options.svg};
    file << cubist::draw_svg<S>(extents, size);
    file.flush();
    cubist::require<cubist::DataError>(file.good(), "cannot write ", options.svg,
                                       ", so the drawing would be lost; pass --svg another path");
  });
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
    const auto& model = cubist::transformer_model(options.model);
    step_.emplace(cubist::TransformerStep{
        model, cubist::token_batch(model, options.tokens, options.sequence)});
    layers_ = {
        {.m = options.tokens, .n = model.width + 2 * model.key_value_width(), .k = model.width}};
  }

  [[nodiscard]] cubist::ProductSize first() const { return layers_.front(); }
  /// The elements in M h.
  [[nodiscard]] double unit() const
  {
    return static_cast<double>(first().m) * static_cast<double>(first().k);
  }
  [[nodiscard]] std::vector<cubist::Plan> plans(int ranks, const cubist::Machine& machine,
                                                const cubist::PlanOptions& options) const
  {
    return step_ ? cubist::plan(*step_, ranks, machine, options)
                 : cubist::plan(layers_, ranks, machine, options);
  }
  /// Seconds of a step by simulation.
  [[nodiscard]] double simulated(const cubist::Plan& plan, const Options& options,
                                 const cubist::SimulatedMachine& machine) const
  {
    const bool training = !options.forward;
    if (step_) return cubist::simulated_seconds(plan, {*step_, training}, machine);
    const bool single = options.scalar == "float";
    return cubist::simulated_seconds(
        plan, cubist::SimulatedStep{options.layers, options.tokens, training, single}, machine);
  }
  void add_to(nlohmann::json& json, const Options& options) const
  {
    if (!step_)
    {
      json["layers"] = options.layers;
      return;
    }
    json["model"] = step_->model.name;
    json["parameters"] = step_->model.parameters();
    json["sequence"] = step_->batch.length;
  }

 private:
  std::vector<cubist::ProductSize> layers_;
  std::optional<cubist::TransformerStep> step_;
};

/// The time of each of the first plans by simulation; the others have none.
std::vector<double> simulate(const Network& network, const std::vector<cubist::Plan>& plans,
                             const Options& options, const cubist::Machine& machine)
{
  constexpr std::size_t most = 5;
  std::vector<double> seconds;
  if (!options.simulate) return seconds;
  const auto simulated = cubist::simulated_machine(machine);
  for (std::size_t i = 0; i < std::min(most, plans.size()); ++i)
    seconds.push_back(network.simulated(plans[i], options, simulated));
  return seconds;
}

void run(const Options& options)
{
  cubist::require<cubist::ArgumentError>(
      !options.simulate || options.model.empty() || options.scalar == "float",
      "got --simulate for a model in ", options.scalar,
      ", but models are simulated in float; use --scalar float, or leave --simulate out");
  cubist::Machine machine;
  for (const auto& path : options.machines) machine = cubist::read_machine(path, machine);
  const Network network{options};
  const bool single = options.scalar == "float";
  const cubist::PlanOptions requested{.scalar_bytes = single ? sizeof(float) : sizeof(double),
                                      .training = !options.forward,
                                      .method = options.method == "collectives"
                                                    ? cubist::Method::collectives
                                                    : cubist::Method::automatic};
  if (!options.scheme.empty()) cubist::with_scheme(options.scheme, []<class S>() {});
  const auto plans = select_plans(network.plans(options.ranks, machine, requested), options);
  const auto simulated = simulate(network, plans, options, machine);

  if (options.json)
  {
    nlohmann::json json{{"tokens", options.tokens},
                        {"ranks", options.ranks},
                        {"scalar", options.scalar},
                        {"training", !options.forward},
                        {"machine", cubist::to_json(machine)},
                        {"plans", nlohmann::json::array()}};
    network.add_to(json, options);
    for (std::size_t i = 0; i < plans.size(); ++i)
    {
      auto& plan = json["plans"].emplace_back(to_json(plans[i], network.unit()));
      if (i < simulated.size()) plan["simulated_seconds"] = simulated[i];
    }
    std::cout << json.dump(2) << '\n';
  }
  else
    print_table(plans, network.unit(), simulated);
  std::fflush(stdout);
  draw(plans.front(), options, network.first());
}

}  // namespace

int main(int argc, char** argv)
try
{
  CLI::App app{
      "Sorts the schemes and meshes of cubist by their predicted time for a network. Words and "
      "messages are those of one step, M h is the tokens times the width of the first layer."};
  Options options;
  auto* network = app.add_option_group("network")->require_option(1);
  network->add_option("--layers", options.layers, "features: input, hidden layers, output")
      ->delimiter(',');
  auto* model = network->add_option(
      "--model", options.model, "a step of a transformer: " + cubist::transformer_model_names());
  app.add_option("--sequence", options.sequence,
                 "tokens of each sequence; left out, the longest that the model takes")
      ->needs(model);
  app.add_option("--tokens", options.tokens, "rows of the input")->required();
  app.add_option("--ranks", options.ranks, "the number of ranks; a plan may leave some idle")
      ->required();
  app.add_option("--machine", options.machines,
                 "JSON with its figures, written by hand or by cubist_bench machine; a later file "
                 "overrides those before")
      ->check(CLI::ExistingFile);
  app.add_option("--scalar", options.scalar)
      ->check(CLI::IsMember({"float", "double"}))
      ->capture_default_str();
  auto* scheme = app.add_option("--scheme", options.scheme, cubist::scheme_names());
  app.add_option("--mesh", options.mesh, "extents: only this mesh")->delimiter(',')->needs(scheme);
  app.add_option(
      "--top", options.top,
      "how many of the fastest; left out, the fastest mesh of each scheme, or 10 of --scheme");
  app.add_flag("--forward", options.forward, "forward only, no training");
  app.add_option("--method", options.method,
                 "automatic reads peers' memory where all ranks of a mesh are on one node")
      ->check(CLI::IsMember({"automatic", "collectives"}))
      ->capture_default_str();
  app.add_flag("--simulate", options.simulate,
               "runs the program of the first five in simulated time, too: an MLP with bias and "
               "GELU, or the model, in float");
  app.add_flag("--json", options.json, "JSON instead of the table");
  auto* drawn =
      app.add_flag("--draw", options.draw, "draw how the first plan cuts the first product");
  drawn->excludes("--json");
  app.add_option("--svg", options.svg, "a file for the same drawing as SVG");
  CLI11_PARSE(app, argc, argv);
  run(options);
}
catch (const std::exception& error)
{
  std::cerr << "cubist_plan: " << error.what() << '\n';
  return 1;
}
