// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A simulated machine as JSON:
//
//   {"name": "2 x 32 cores", "source": "…", "cores": 64, "memory": 274877906944, …,
//    "links": [{"name": "memory", "ranks": 64, "latency": 1e-6, "bandwidth": 4e9,
//               "overlaps": false},
//              {"name": "network", "latency": 2e-6, "bandwidth": 12.5e9}],
//    "rates": {"float": 80e9, "double": {"m": [256, 4096], "n": [256, 4096], "k": [256],
//              "rates": [30e9, 35e9, 35e9, 40e9]}}}
//
// A figure that is left out keeps its value. A rate is one number for all shapes, or a table
// (rate_table.hpp).

#include <cstddef>
#include <string>
#include <type_traits>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/core/json.hpp"
#include "cubist/simulation/machine.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Calls f(name, figure) for every figure of a link.
template <class Link, class F>
void for_each_figure_of_link(Link& link, F f)
{
  f("name", link.name);
  f("ranks", link.ranks);
  f("latency", link.latency);
  f("bandwidth", link.bandwidth);
  f("rank_bandwidth", link.rank_bandwidth);
  f("core_seconds_per_byte", link.core_seconds_per_byte);
  f("core_seconds_per_message", link.core_seconds_per_message);
  f("overlaps", link.overlaps);
}

/// The same for a machine, but for its links, algorithms and rates.
template <class M, class F>
void for_each_figure_of_machine(M& machine, F f)
{
  f("name", machine.name);
  f("source", machine.source);
  f("cores", machine.cores);
  f("nodes_sharing", machine.nodes_sharing);
  f("memory", machine.memory);
  f("memory_bandwidth", machine.memory_bandwidth);
  f("node_memory_bandwidth", machine.node_memory_bandwidth);
  f("call_seconds", machine.call_seconds);
  f("segment_bytes", machine.segment_bytes);
  f("shared_memory", machine.shared_memory);
}

/// Sets the figures of `json` by `visit`, which is one of the functions above.
/// @param others names that are read elsewhere
/// @throws DataError for a name that is unknown, or a value of another type
template <class Visit>
void read_figures_of(const nlohmann::json& json, const std::string& what, Visit visit,
                     const std::string& others = "")
{
  require<DataError>(json.is_object(), "got ", excerpt(json), " for ", what,
                     ", which has no names, so it is unclear what the figures are; use an object, "
                     "as {\"latency\": 1e-6}");
  for (const auto& [key, value] : json.items())
  {
    std::string known = others;
    bool is_known = (", " + others + ",").find(", " + key + ",") != std::string::npos;
    visit([&, &given = key, &field = value](const std::string& name, auto& figure) {
      known += (known.empty() ? "" : ", ") + name;
      if (name != given) return;
      is_known = true;
      using Figure = std::remove_reference_t<decltype(figure)>;
      require<DataError>(json_holds<Figure>(field), "got ", excerpt(field), " for ", name, " of ",
                         what,
                         ", which is of another type, so nothing can be computed with it; use a ",
                         std::is_same_v<Figure, bool>          ? "truth value"
                         : std::is_same_v<Figure, std::string> ? "text"
                         : std::is_integral_v<Figure>          ? "whole number"
                                                               : "number");
      figure = field.template get<Figure>();
    });
    require<DataError>(is_known, "got ", what, " with ", excerpt(key),
                       ", which the simulator does not know and would ignore; use ", known);
  }
}

[[nodiscard]] inline RateTable rates_from_json(const nlohmann::json& json)
try
{
  if (json.is_number()) return RateTable::constant(json.get<double>());
  return {json.at("m"), json.at("n"), json.at("k"), json.at("rates")};
}
catch (const nlohmann::json::exception& error)
{
  throw DataError{std::string{"got rates of products that lack something ("} + error.what() +
                  "), so their time is unknown; use a number, or m, n, k and rates as "
                  "cubist_bench rates writes them"};
}

[[nodiscard]] inline SimulatedAlgorithms algorithms_from_json(const nlohmann::json& json)
{
  if (json == "mpi") return SimulatedAlgorithms::mpi;
  require<DataError>(json == "nccl", "got ", excerpt(json),
                     " for a machine's algorithms, whose time is unknown; use \"mpi\" or "
                     "\"nccl\"");
  return SimulatedAlgorithms::nccl;
}

}  // namespace detail

/// @param machine the figures that are left out
/// @throws DataError for JSON that describes no machine, ArgumentError for invalid figures
[[nodiscard]] inline SimulatedMachine simulated_machine_from_json(const nlohmann::json& json,
                                                                  SimulatedMachine machine = {})
{
  detail::read_figures_of(
      json, "a simulated machine", [&](auto f) { detail::for_each_figure_of_machine(machine, f); },
      "links, algorithms, rates");
  if (json.contains("algorithms"))
    machine.algorithms = detail::algorithms_from_json(json["algorithms"]);
  if (json.contains("links"))
  {
    require<DataError>(json["links"].is_array(), "got ", excerpt(json["links"]),
                       " for the links of a simulated machine, whose order is their distance, so "
                       "it must be a list; use one, as [{\"name\": \"memory\"}]");
    machine.links.clear();
    for (const auto& link : json["links"])
    {
      machine.links.emplace_back();
      detail::read_figures_of(link, "a link of a simulated machine", [&](auto f) {
        detail::for_each_figure_of_link(machine.links.back(), f);
      });
    }
  }
  if (json.contains("rates"))
  {
    require<DataError>(json["rates"].is_object(), "got rates without the names of scalars, so it "
                                                  "is unclear whose they are; use an object, as "
                                                  "{\"float\": 80e9}");
    machine.rates.clear();
    for (const auto& [scalar, rates] : json["rates"].items())
      machine.rates[scalar] = detail::rates_from_json(rates);
  }
  require_valid(machine);
  return machine;
}

/// @throws DataError for a file that can't be read, and what `simulated_machine_from_json` throws
[[nodiscard]] inline SimulatedMachine read_simulated_machine(const std::string& path)
{
  constexpr JsonUse use{"so the machine stays unknown", "give a file as those in machines/",
                        "look for a comma or a bracket too many"};
  return simulated_machine_from_json(read_json(path, use));
}

/// As a file that `read_simulated_machine` reads.
[[nodiscard]] inline nlohmann::json to_json(const SimulatedMachine& machine)
{
  nlohmann::json json;
  detail::for_each_figure_of_machine(
      machine, [&](const std::string& name, const auto& figure) { json[name] = figure; });
  json["algorithms"] = machine.algorithms == SimulatedAlgorithms::mpi ? "mpi" : "nccl";
  for (const auto& link : machine.links)
  {
    auto& mine = json["links"].emplace_back();
    detail::for_each_figure_of_link(
        link, [&](const std::string& name, const auto& figure) { mine[name] = figure; });
  }
  for (const auto& [scalar, table] : machine.rates)
    if (table.rates.size() == 1)
      json["rates"][scalar] = table.rates.front();
    else
      json["rates"][scalar] = {
          {"m", table.m}, {"n", table.n}, {"k", table.k}, {"rates", table.rates}};
  return json;
}

}  // namespace cubist::CUBIST_ABI
