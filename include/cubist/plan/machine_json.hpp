// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A machine from JSON, written by hand,
//
//   {"flops": 40e9, "float_factor": 2, "cores": 16, "ranks_per_node": 16,
//    "inside": {"latency": 1e-6, "bandwidth": 4e9}, "across": {"latency": 2e-6,
//    "bandwidth": 12.5e9}, "hidden": 1, "memory_bandwidth": 8e9, "memory": 137438953472,
//    "gemm": {"products": 56, "copy": 0.125}}
//
// where a figure that is left out keeps its value, or measured, by `cubist_bench machine --json` or
// `cubist_bench collectives --json`.

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/core/json.hpp"
#include "cubist/plan/machine.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Sets the figures of a group, whose names begin with `prefix`, as "inside.", or with an empty
/// prefix all figures.
inline void read_figures(const nlohmann::json& json, const std::string& prefix, Machine& machine)
{
  const std::string what =
      prefix.empty() ? "a machine" : "a machine's " + prefix.substr(0, prefix.size() - 1);
  require<DataError>(json.is_object(), "got ", excerpt(json), " for ", what,
                     ", which has no names, so it is unclear what the figures are; use an object, "
                     "as {\"latency\": 1e-6}");
  for (const auto& [key, value] : json.items())
  {
    std::vector<std::string> names;  // of the figures and groups that may be here
    bool is_figure = false;
    for_each_figure(machine,
                    [&, &given = key, &number = value](const std::string& name, auto& figure) {
                      if (!name.starts_with(prefix)) return;
                      const auto end = std::min(name.find('.', prefix.size()), name.size());
                      const auto shown = name.substr(prefix.size(), end - prefix.size());
                      if (names.empty() || names.back() != shown) names.push_back(shown);
                      if (name != prefix + given) return;
                      is_figure = true;
                      using Figure = std::remove_reference_t<decltype(figure)>;
                      const char* wanted = std::is_integral_v<Figure> ? "whole number" : "number";
                      require<DataError>(json_holds<Figure>(number), "got ", excerpt(number),
                                         " for a machine's ", name, ", which is no ", wanted,
                                         ", so nothing can be predicted with it; use a ", wanted);
                      figure = number.template get<Figure>();
                    });
    if (is_figure) continue;
    if (std::find(names.begin(), names.end(), key) != names.end())
    {
      read_figures(value, prefix + key + '.', machine);
      continue;
    }
    std::string known;
    for (std::size_t i = 0; i < names.size(); ++i)
      known += (i == 0 ? "" : i + 1 < names.size() ? ", " : " or ") + names[i];
    throw DataError{"got a machine with " + excerpt(prefix + key) +
                    ", which the planner does not know and would ignore; use " + known};
  }
}

[[nodiscard]] inline double median(std::vector<double> values)
{
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A count in results of cubist_bench.
/// @throws DataError unless it is a whole number, at least 1
template <class V>
[[nodiscard]] V whole_at(const nlohmann::json& json, const char* name)
{
  const auto& value = json.at(name);
  require<DataError>(json_holds<V>(value) && value.template get<V>() > 0,
                     "got results of cubist_bench with ", excerpt(value), " for ", name,
                     ", which is no whole number above 0, so the machine stays unknown; use those "
                     "of cubist_bench machine or collectives --json");
  return value.template get<V>();
}

/// A machine from the rows of `cubist_bench collectives`: the latency is the time of a message in
/// the shortest calls, the bandwidth that of the longest.
[[nodiscard]] inline Machine measured_machine(const nlohmann::json& json, Machine machine)
try
{
  const auto& rows = json.at("rows");
  const int nodes = whole_at<int>(json, "nodes");
  const int ranks = whole_at<int>(rows.at(0), "ranks");
  const auto parts = [](int n, int in_each) { return (n - 1) / in_each + 1; };
  machine.cores = json.at("cores");
  machine.nodes_sharing = parts(nodes, whole_at<int>(json, "machines"));
  machine.ranks_per_node = parts(ranks, nodes);
  require_valid(machine);
  const double share = machine.share(ranks);
  machine.flops = 1e9 * rows.at(0).at("gemm_gflops_per_rank").get<double>() /
                  machine.cores_to_multiply({ranks, ranks});

  std::map<std::size_t, std::vector<double>> latency;
  std::map<std::size_t, std::vector<double>> bandwidth;
  for (const auto& row : rows)
  {
    const auto words = whole_at<std::size_t>(row, "words");
    const double seconds = row.at("seconds");
    const double messages = row.at("messages_per_rank");
    const double bytes =
        row.at("most_words_per_rank").get<double>() * row.at("bytes_per_word").get<double>();
    if (messages == 0 || bytes == 0) continue;
    latency[words].push_back(seconds / messages);
    bandwidth[words].push_back(bytes / seconds);
  }
  if (latency.empty()) return machine;
  const Link link{median(latency.begin()->second), median(bandwidth.rbegin()->second)};
  if (nodes > 1)
    machine.across = link;
  else
    machine.inside = {link.latency * share, link.bandwidth / share};
  return machine;
}
catch (const nlohmann::json::exception& error)
{
  throw DataError{
      std::string{"got results of cubist_bench that lack something ("} + error.what() +
      "), so the machine stays unknown; use those of cubist_bench machine or collectives "
      "--json"};
}

}  // namespace detail

/// @param machine the figures that are left out
/// @throws DataError for JSON that describes no machine, ArgumentError for invalid figures
[[nodiscard]] inline Machine machine_from_json(const nlohmann::json& json, Machine machine = {})
{
  if (json.contains("machine")) return machine_from_json(json["machine"], machine);
  if (json.contains("benchmark"))
    machine = detail::measured_machine(json, machine);
  else
    detail::read_figures(json, "", machine);
  require_valid(machine);
  return machine;
}

/// @throws DataError for a file that can't be read, and what `machine_from_json` throws
[[nodiscard]] inline Machine read_machine(const std::string& path, const Machine& machine = {})
{
  constexpr JsonUse use{"so the machine stays unknown", "give a file with its figures in JSON",
                        "look for a comma or a bracket too many, or let cubist_bench machine "
                        "--json write it"};
  return machine_from_json(read_json(path, use), machine);
}

/// As a file that `read_machine` reads.
[[nodiscard]] inline nlohmann::json to_json(const Machine& machine)
{
  nlohmann::json json;
  for_each_figure(machine, [&](const std::string& name, const auto& figure) {
    const auto dot = name.find('.');
    if (dot == std::string::npos)
      json[name] = figure;
    else
      json[name.substr(0, dot)][name.substr(dot + 1)] = figure;
  });
  return json;
}

}  // namespace cubist::CUBIST_ABI
