// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Prints plans as a table, as a table of their memory, and as JSON.

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/machine/machine.hpp>
#include <cubist/plan/energy.hpp>
#include <cubist/plan/plan.hpp>
#include <cubist/plan/reason.hpp>
#include <cubist/plan/saves.hpp>

#include "simulate.hpp"

namespace cubist
{

[[nodiscard]] inline std::string time_text(double seconds)
{
  constexpr double one = 0.9995;  // the least number that three digits round to 1
  const bool long_one = seconds >= one;
  const bool short_one = seconds < one * 1e-3;
  const double value = long_one ? seconds : short_one ? 1e6 * seconds : 1e3 * seconds;
  return detail::three_digits(value) + (long_one ? " s" : short_one ? " us" : " ms");
}

/// Returns the width of the column of schemes: that of the longest name.
[[nodiscard]] inline int scheme_width(const std::vector<Plan>& plans)
{
  std::size_t width = 6;
  for (const auto& plan : plans) width = std::max(width, plan.scheme.size());
  return static_cast<int>(width);
}

/// Prints the plans as a table.
/// @param simulated what the first plans cost by simulation, in their order; if it is empty, the
/// column is left out
inline void print_table(const std::vector<Plan>& plans, double unit,
                        const std::vector<SimulatedCost>& simulated, const std::string& scalar,
                        const Machine& machine)
{
  const auto column = [&](const std::string& text) {
    return simulated.empty() ? "" : detail::join({std::string(10 - text.size(), ' '), text});
  };
  const int width = scheme_width(plans);
  std::printf("%-*s %-10s %5s %9s%s %11s %8s %9s %10s  %s\n", width, "scheme", "mesh", "idle",
              "time", column("simulated").c_str(), "words/rank", "in M h", "messages", "GiB/rank",
              "why");
  for (std::size_t i = 0; i < plans.size(); ++i)
  {
    const auto& plan = plans[i];
    std::printf("%-*s %-10s %5d %9s%s %11.4g %8.3g %9.4g %10.3g  %s\n", width, plan.scheme.c_str(),
                mesh_text(plan).c_str(), plan.idle, time_text(plan.seconds()).c_str(),
                column(i < simulated.size() ? time_text(simulated[i].seconds) : "-").c_str(),
                plan.words, plan.words / unit, plan.messages, plan.memory / (1 << 30),
                plan.reason.c_str());
  }
  std::printf("predicted in %s on %s\n", scalar.c_str(), machine.name.c_str());
  if (simulated.empty()) return;
  std::printf("the fastest by simulation: %s on %s\n", plans.front().scheme.c_str(),
              mesh_text(plans.front()).c_str());
  const auto first = std::min_element(
      plans.begin(), plans.begin() + static_cast<std::ptrdiff_t>(simulated.size()), detail::better);
  if (first != plans.begin())
    std::printf("sorted by simulated time; predicted first: %s on %s, simulated %.2g %% slower\n",
                first->scheme.c_str(), mesh_text(*first).c_str(),
                100 * (simulated[static_cast<std::size_t>(first - plans.begin())].seconds /
                           simulated.front().seconds -
                       1));
  for (const auto& cost : simulated)
    if (!cost.folding.empty())
    {
      std::printf("%s\n", cost.folding.c_str());
      break;
    }
}

/// Prints each rank's memory by use, and the largest batches in tokens.
inline void print_memory(const std::vector<Plan>& plans, const std::vector<std::size_t>& batches,
                         const std::vector<SimulatedCost>& simulated, const Machine& machine)
{
  const auto gibibytes = [](double bytes) { return detail::three_digits(bytes / (1 << 30)); };
  const int width = scheme_width(plans);
  const auto print = [&](const std::vector<std::string>& line) {
    std::printf("%-*s %-10s", width, line[0].c_str(), line[1].c_str());
    for (std::size_t i = 2; i < line.size(); ++i)
      std::printf(" %*s", i + 2 < line.size() ? 11 : 15, line[i].c_str());
    std::printf("\n");
  };
  std::printf("\nmemory of a rank in GiB, and the largest batch that fits in tokens\n");
  std::vector<std::string> head{"scheme",    "mesh",        "parameters", "gradients",
                                "optimizer", "activations", "workspace",  "sum"};
  if (!simulated.empty()) head.emplace_back("simulated");
  for (const char* column : {"available", "fits", "largest batch"}) head.emplace_back(column);
  print(head);
  for (std::size_t i = 0; i < plans.size(); ++i)
  {
    const auto& plan = plans[i];
    const auto& parts = plan.memory_parts;
    std::vector<std::string> line{plan.scheme, mesh_text(plan)};
    for (const double bytes : {parts.parameters, parts.gradients, parts.optimizer,
                               parts.activations, parts.workspace, plan.memory})
      line.push_back(gibibytes(bytes));
    if (!simulated.empty())
      line.push_back(i < simulated.size() ? gibibytes(simulated[i].memory) : "-");
    const double available = machine.memory_per_rank(plan.ranks);
    line.push_back(gibibytes(available));
    line.push_back(plan.fits_memory ? "yes"
                                    : "no: " + gibibytes(plan.memory - available) + " over");
    line.push_back(std::to_string(batches[i]));
    print(line);
  }
}

/// Prints how often to save each plan's checkpoints.
inline void print_saves(const std::vector<Plan>& plans, const std::vector<SavePlan>& saves)
{
  const int width = scheme_width(plans);
  const auto steps = [](const SaveInterval& i) { return detail::three_digits(i.steps); };
  const auto percent = [](const SaveInterval& i) {
    return detail::three_digits(100 * i.overhead) + " %";
  };
  std::printf(
      "\na checkpoint takes %s GiB; in the background: steps from one to the next, and the time "
      "that saves and failures cost\n",
      detail::three_digits(saves.front().bytes / (1 << 30)).c_str());
  std::printf("%-*s %-10s %11s %9s %9s %9s %9s %9s %9s\n", width, "scheme", "mesh", "copy, GiB",
              "stall", "write", "every", "cost", "at once", "cost");
  for (std::size_t i = 0; i < plans.size(); ++i)
  {
    const SavePlan& s = saves[i];
    std::printf("%-*s %-10s %11s %9s %9s %9s %9s %9s %9s\n", width, plans[i].scheme.c_str(),
                mesh_text(plans[i]).c_str(), detail::three_digits(s.copy / (1 << 30)).c_str(),
                time_text(s.stall).c_str(), time_text(s.write).c_str(),
                steps(s.in_background).c_str(), percent(s.in_background).c_str(),
                steps(s.at_once).c_str(), percent(s.at_once).c_str());
  }
}

/// Prints the energy and the price of a step of each plan, and of a run of this many steps.
inline void print_energies(const std::vector<Plan>& plans, const std::vector<PlanEnergy>& energies,
                           double steps)
{
  const int width = scheme_width(plans);
  std::printf("\nenergy and price of a step, and of a run of %s steps\n",
              detail::three_digits(steps).c_str());
  std::printf("%-*s %-10s %11s %11s %11s %11s %11s\n", width, "scheme", "mesh", "kWh", "price",
              "days", "kWh", "price");
  for (std::size_t i = 0; i < plans.size(); ++i)
  {
    constexpr double seconds_of_a_day = 86'400;
    const PlanEnergy run = steps * energies[i];
    std::printf("%-*s %-10s %11.3g %11.3g %11.3g %11.4g %11.4g\n", width, plans[i].scheme.c_str(),
                mesh_text(plans[i]).c_str(), energies[i].kilowatt_hours, energies[i].price,
                run.seconds / seconds_of_a_day, run.kilowatt_hours, run.price);
  }
}

[[nodiscard]] inline nlohmann::json to_json(const PlanEnergy& energy)
{
  return {{"seconds", energy.seconds},
          {"kilowatt_hours", energy.kilowatt_hours},
          {"price", energy.price}};
}

[[nodiscard]] inline nlohmann::json to_json(const SavePlan& saves)
{
  const auto interval = [](const SaveInterval& i) {
    return nlohmann::json{{"seconds", i.seconds}, {"steps", i.steps}, {"overhead", i.overhead}};
  };
  return {{"bytes", saves.bytes},
          {"copy_bytes", saves.copy},
          {"stall_seconds", saves.stall},
          {"write_seconds", saves.write},
          {"in_background", interval(saves.in_background)},
          {"at_once", interval(saves.at_once)}};
}

[[nodiscard]] inline const char* method_name(Method method)
{
  return method == Method::direct ? "direct" : "collectives";
}

[[nodiscard]] inline nlohmann::json to_json(const Plan& plan, double unit, const Machine& machine)
{
  const auto& parts = plan.memory_parts;
  return {{"scheme", plan.scheme},
          {"mesh", plan.extents},
          {"ranks", plan.ranks},
          {"idle", plan.idle},
          {"stages", plan.stages},
          {"micro_batches", plan.micro_batches},
          {"pieces", plan.pieces},
          {"bubble_seconds", plan.bubble},
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
          {"memory_by_use",
           {{"parameters", parts.parameters},
            {"gradients", parts.gradients},
            {"optimizer", parts.optimizer},
            {"activations", parts.activations},
            {"workspace", parts.workspace}}},
          {"available_memory", machine.memory_per_rank(plan.ranks)},
          {"fits_memory", plan.fits_memory},
          {"note", plan.note},
          {"reason", plan.reason}};
}

}  // namespace cubist
