// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A machine from JSON: written by hand,
//
//   {"flops": 40e9, "float_factor": 2, "cores": 16, "ranks_per_node": 16,
//    "inside": {"latency": 1e-6, "bandwidth": 4e9}, "across": {"latency": 2e-6,
//    "bandwidth": 12.5e9}, "hidden": 1, "memory_bandwidth": 8e9, "memory": 137438953472}
//
// where what is left out stays as it is; or measured, by `cubist_bench collectives --json`.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/core/error.hpp"
#include "cubist/plan/machine.hpp"

namespace cubist
{

namespace detail
{

template <class T>
void read_figure(const nlohmann::json& json, const std::string& name, T& figure)
{
  require<DataError>(json.is_number(), "got ", json.dump(), " for a machine's ", name,
                     ", which is no number, so nothing can be worked out with it; use a number");
  figure = json.get<T>();
}

inline void require_object(const nlohmann::json& json, const std::string& what)
{
  require<DataError>(json.is_object(), "got ", json.dump().substr(0, 40), " for ", what,
                     ", which has no names, so it is unclear what the figures are; use an object, "
                     "as {\"latency\": 1e-6}");
}

[[noreturn]] inline void throw_unknown(const std::string& name, const std::string& known)
{
  throw DataError{"got a machine with \"" + name +
                  "\", which the planner does not know and would ignore; use " + known};
}

inline void read_link(const nlohmann::json& json, const std::string& name, Link& link)
{
  require_object(json, "a machine's " + name);
  for (const auto& [key, value] : json.items())
    if (key == "latency")
      read_figure(value, name + ".latency", link.latency);
    else if (key == "bandwidth")
      read_figure(value, name + ".bandwidth", link.bandwidth);
    else
      throw_unknown(name + '.' + key, "latency or bandwidth");
}

[[nodiscard]] inline double median(std::vector<double> values)
{
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// What the rows of `cubist_bench collectives` say: latency is the time of a message in the
/// shortest calls, bandwidth that of the longest.
[[nodiscard]] inline Machine measured_machine(const nlohmann::json& json, Machine machine)
try
{
  const auto& rows = json.at("rows");
  const double nodes = json.at("nodes");
  const int ranks = rows.at(0).at("ranks");
  machine.cores = json.at("cores");
  machine.nodes_sharing = static_cast<int>(std::ceil(nodes / json.at("machines").get<double>()));
  machine.ranks_per_node = static_cast<int>(std::ceil(ranks / nodes));
  const double share = machine.share(ranks);
  machine.flops = 1e9 * rows.at(0).at("gemm_gflops_per_rank").get<double>() /
                  machine.cores_to_multiply({ranks, ranks});

  std::map<std::size_t, std::vector<double>> latency;
  std::map<std::size_t, std::vector<double>> bandwidth;
  for (const auto& row : rows)
  {
    const std::size_t words = row.at("words");
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
  throw DataError{std::string{"got results of cubist_bench that lack something ("} + error.what() +
                  "), so the machine stays unknown; use those of cubist_bench collectives --json"};
}

}  // namespace detail

/// @param machine the figures that are left out
/// @throws DataError for what is no description of a machine, ArgumentError for figures that can't
/// be
[[nodiscard]] inline Machine machine_from_json(const nlohmann::json& json, Machine machine = {})
{
  detail::require_object(json, "a machine");
  if (json.contains("benchmark"))
  {
    machine = detail::measured_machine(json, machine);
    require_valid(machine);
    return machine;
  }
  for (const auto& [key, value] : json.items())
    if (key == "flops")
      detail::read_figure(value, key, machine.flops);
    else if (key == "float_factor")
      detail::read_figure(value, key, machine.float_factor);
    else if (key == "cores")
      detail::read_figure(value, key, machine.cores);
    else if (key == "ranks_per_node")
      detail::read_figure(value, key, machine.ranks_per_node);
    else if (key == "nodes_sharing")
      detail::read_figure(value, key, machine.nodes_sharing);
    else if (key == "inside")
      detail::read_link(value, key, machine.inside);
    else if (key == "across")
      detail::read_link(value, key, machine.across);
    else if (key == "hidden")
      detail::read_figure(value, key, machine.hidden);
    else if (key == "memory_bandwidth")
      detail::read_figure(value, key, machine.memory_bandwidth);
    else if (key == "memory")
      detail::read_figure(value, key, machine.memory);
    else
      detail::throw_unknown(key, "flops, float_factor, cores, ranks_per_node, nodes_sharing, "
                                 "inside, across, hidden, memory_bandwidth or memory");
  require_valid(machine);
  return machine;
}

/// @throws DataError for a file that can't be read, and what `machine_from_json` throws
[[nodiscard]] inline Machine read_machine(const std::string& path, const Machine& machine = {})
{
  std::ifstream file{path};
  require<DataError>(file.good(), "cannot read ", path,
                     ", so the machine stays unknown; give a file with its figures in JSON");
  const auto json = nlohmann::json::parse(file, nullptr, false);
  require<DataError>(!json.is_discarded(), "got ", path,
                     ", which is no JSON, so the machine stays unknown; look for a comma or a "
                     "bracket too many, or let cubist_bench collectives --json write it");
  return machine_from_json(json, machine);
}

[[nodiscard]] inline nlohmann::json to_json(const Machine& m)
{
  const auto link = [](const Link& l) {
    return nlohmann::json{{"latency", l.latency}, {"bandwidth", l.bandwidth}};
  };
  return {{"flops", m.flops},
          {"float_factor", m.float_factor},
          {"cores", m.cores},
          {"ranks_per_node", m.ranks_per_node},
          {"nodes_sharing", m.nodes_sharing},
          {"inside", link(m.inside)},
          {"across", link(m.across)},
          {"hidden", m.hidden},
          {"memory_bandwidth", m.memory_bandwidth},
          {"memory", m.memory}};
}

}  // namespace cubist
