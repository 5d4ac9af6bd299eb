// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A machine as JSON, as `cubist_bench machine` measures it:
//
//   {"name": "2 x 32 cores", "source": "…", "cores": 64, "memory": 274877906944, …,
//    "links": [{"name": "memory", "ranks": 64, "latency": 1e-6, "bandwidth": 4e9,
//               "overlaps": false},
//              {"name": "network", "latency": 2e-6, "bandwidth": 12.5e9}],
//    "rates": {"float": {"peak": 80e9}, "double": {"m": [256, 4096], "n": [256, 4096], "k": [256],
//              "rates": [30e9, 35e9, 35e9, 40e9]}},
//    "gemm": {"products": 56, "copy": 0.125}}
//
// A figure that is left out keeps its value. A rate is one number for all shapes, the rate of large
// products (`peak`), or a table (rate_table.hpp). A file that is written by hand may use short
// names:
//
//   {"ranks_per_node": 64, "inside": {"latency": 1e-6}, "across": {"bandwidth": 25e9},
//    "flops": 40e9, "float_factor": 2, "hidden": 0.5}
//
// They stand for the first links, the last links, the peaks of double and float, and for
// `core_seconds_per_byte` of the last links. A machine is also read from the results of
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
#include "cubist/machine/machine.hpp"

namespace cubist::CUBIST_ABI
{

namespace detail
{

/// Calls f(name, figure) for every figure of a link.
template <class L, class F>
void for_each_figure_of_link(L& link, F f)
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

/// Calls f(name, figure) for every figure of a machine that is one value.
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
  f("write_bandwidth", machine.write_bandwidth);
  f("idle_watts", machine.idle_watts);
  f("busy_watts", machine.busy_watts);
  f("hour_price", machine.hour_price);
  f("call_seconds", machine.call_seconds);
  f("segment_bytes", machine.segment_bytes);
  f("shared_memory", machine.shared_memory);
}

/// Sets the figures that `json` contains. `visit` calls a function with each name and figure.
/// @param others names that are read elsewhere
/// @throws DataError for a name that is unknown, or a value of the wrong type
template <class Visit>
void read_figures(const nlohmann::json& json, const std::string& what, Visit visit,
                  const std::string& others = "")
{
  require<DataError>(
      json.is_object(), "got ", excerpt(json), " for ", what,
      ", which has no names, so it is unclear what the figures are; use an object, such as "
      "{\"latency\": 1e-6}");
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
                         ", which has the wrong type, so nothing can be computed with it; use a ",
                         std::is_same_v<Figure, bool>          ? "truth value"
                         : std::is_same_v<Figure, std::string> ? "text"
                         : std::is_integral_v<Figure>          ? "whole number"
                                                               : "number");
      figure = field.template get<Figure>();
    });
    require<DataError>(is_known, "got ", what, " with ", excerpt(key),
                       ", which is unknown and would be ignored; use ", known);
  }
}

inline void read_link(const nlohmann::json& json, const std::string& what, Link& link)
{
  read_figures(json, what, [&](auto f) { for_each_figure_of_link(link, f); });
}

[[nodiscard]] inline RateTable rates_from_json(const nlohmann::json& json)
try
{
  if (json.is_number()) return RateTable::constant(json.get<double>());
  if (json.contains("peak")) return RateTable::peak(json["peak"].get<double>());
  return {json.at("m"), json.at("n"), json.at("k"), json.at("rates")};
}
catch (const nlohmann::json::exception& error)
{
  throw DataError{
      std::string{"got incomplete rates of products ("} + error.what() +
      "), so their time is unknown; use a number, a peak, or m, n, k and rates, as cubist_bench "
      "machine writes them"};
}

[[nodiscard]] inline nlohmann::json to_json(const RateTable& table)
{
  if (table.is_peak) return {{"peak", table.rates.front()}};
  if (table.rates.size() == 1) return table.rates.front();
  return {{"m", table.m}, {"n", table.n}, {"k", table.k}, {"rates", table.rates}};
}

[[nodiscard]] inline CollectiveAlgorithms algorithms_from_json(const nlohmann::json& json)
{
  if (json == "mpi") return CollectiveAlgorithms::mpi;
  require<DataError>(json == "nccl", "got ", excerpt(json),
                     " for a machine's algorithms, but their time is unknown; use \"mpi\" or "
                     "\"nccl\"");
  return CollectiveAlgorithms::nccl;
}

[[nodiscard]] inline std::vector<Link> links_from_json(const nlohmann::json& json)
{
  require<DataError>(
      json.is_array(), "got ", excerpt(json),
      " for the links of a machine, but they must be a list, from the nearest ranks to the "
      "farthest; use one, such as [{\"name\": \"memory\"}]");
  std::vector<Link> links;
  for (const auto& link : json) read_link(link, "a link of a machine", links.emplace_back());
  return links;
}

/// Makes the first links of a machine connect this many ranks each. Its other links connect all.
inline void set_ranks_per_node(Machine& machine, int ranks)
{
  if (machine.links.size() == 1) machine.links.push_back(machine.links.front());
  machine.links.front().ranks = ranks;
}

/// Sets the speed of large products.
/// @param flops operations per second of a core in double
/// @param float_factor the speed in float, relative to that
inline void set_peaks(Machine& machine, double flops, double float_factor)
{
  machine.rates["float"] = RateTable::peak(flops * float_factor);
  machine.rates["double"] = RateTable::peak(flops);
}

/// The figures that short names stand for.
struct ShortFigures
{
  double flops;
  double float_factor;
  int ranks_per_node;
  double hidden = 1;

  explicit ShortFigures(const Machine& machine)
  {
    const auto rate = [&](const char* scalar, double otherwise) {
      const auto table = machine.rates.find(scalar);
      return table == machine.rates.end() ? otherwise : table->second.largest();
    };
    flops = rate("double", rate("float", 1) / 2);
    float_factor = rate("float", 2 * flops) / flops;
    ranks_per_node = machine.links.front().ranks;
  }

  template <class F>
  void for_each(F f)
  {
    f("flops", flops);
    f("float_factor", float_factor);
    f("ranks_per_node", ranks_per_node);
    f("hidden", hidden);
  }

  /// Sets the figures of a machine that are in `json`, and the links that have short names.
  void set(Machine& machine, const nlohmann::json& json) const
  {
    if (json.contains("flops") || json.contains("float_factor"))
      set_peaks(machine, flops, float_factor);
    if (json.contains("ranks_per_node")) set_ranks_per_node(machine, ranks_per_node);
    if (json.contains("inside"))
      read_link(json["inside"], "a machine's inside", machine.links.front());
    if (json.contains("across"))
      read_link(json["across"], "a machine's across", machine.links.back());
    if (!json.contains("hidden")) return;
    require<ArgumentError>(
        hidden >= 0 && hidden <= 1, "got hidden = ", hidden,
        " for a machine, but it is the part of the time of messages that overlaps with products; "
        "use a number from 0 to 1");
    // A core spends this time on each byte that leaves a node, and on each that enters one.
    machine.links.back().core_seconds_per_byte =
        (1 - hidden) * machine.cores / machine.links.back().bandwidth / 2 / machine.nodes_sharing;
  }
};

[[nodiscard]] inline double median(std::vector<double> values)
{
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Returns a count from results of cubist_bench.
/// @throws DataError unless it is a whole number, at least 1
template <class V>
[[nodiscard]] V whole_at(const nlohmann::json& json, const char* name)
{
  const auto& value = json.at(name);
  require<DataError>(
      json_holds<V>(value) && value.template get<V>() > 0, "got results of cubist_bench with ",
      excerpt(value), " for ", name,
      ", which is not a whole number above 0, so the machine's figures are unknown; use results of "
      "cubist_bench machine or collectives --json");
  return value.template get<V>();
}

/// Returns the machine that the rows of `cubist_bench collectives` describe. The latency is the
/// time of a message in the shortest calls; the bandwidth is that of the longest calls.
[[nodiscard]] inline Machine measured_machine(const nlohmann::json& json, Machine machine)
try
{
  const auto& rows = json.at("rows");
  const int nodes = whole_at<int>(json, "nodes");
  const int ranks = whole_at<int>(rows.at(0), "ranks");
  const auto parts = [](int n, int in_each) { return (n - 1) / in_each + 1; };
  machine.cores = json.at("cores");
  machine.nodes_sharing = parts(nodes, whole_at<int>(json, "machines"));
  set_ranks_per_node(machine, parts(ranks, nodes));
  require_valid(machine);
  const double share = machine.share(ranks);
  set_peaks(machine,
            1e9 * rows.at(0).at("gemm_gflops_per_rank").get<double>() /
                machine.cores_to_multiply({ranks, ranks}),
            ShortFigures{machine}.float_factor);

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
  const double scale = nodes > 1 ? 1 : share;
  Link& link = nodes > 1 ? machine.links.back() : machine.links.front();
  link.latency = median(latency.begin()->second) * scale;
  link.bandwidth = median(bandwidth.rbegin()->second) / scale;
  return machine;
}
catch (const nlohmann::json::exception& error)
{
  throw DataError{std::string{"got incomplete results of cubist_bench ("} + error.what() +
                  "), so the machine's figures are unknown; use results of cubist_bench machine or "
                  "collectives --json"};
}

}  // namespace detail

/// Returns the machine that JSON describes.
/// @param machine supplies the figures that the JSON leaves out
/// @throws DataError for JSON that describes no machine, ArgumentError for invalid figures
[[nodiscard]] inline Machine machine_from_json(const nlohmann::json& json, Machine machine = {})
{
  if (json.contains("machine")) return machine_from_json(json["machine"], machine);
  if (json.contains("benchmark"))
  {
    machine = detail::measured_machine(json, machine);
    require_valid(machine);
    return machine;
  }
  detail::ShortFigures brief{machine};
  detail::read_figures(
      json, "a machine",
      [&](auto f) {
        detail::for_each_figure_of_machine(machine, f);
        brief.for_each(f);
      },
      "links, algorithms, rates, gemm, inside, across");
  if (json.contains("algorithms"))
    machine.algorithms = detail::algorithms_from_json(json["algorithms"]);
  if (json.contains("links")) machine.links = detail::links_from_json(json["links"]);
  if (json.contains("rates"))
  {
    require<DataError>(
        json["rates"].is_object(),
        "got rates without the names of scalars, so it is unclear to which scalar they belong; use "
        "an object, such as {\"float\": 80e9}");
    machine.rates.clear();
    for (const auto& [scalar, rates] : json["rates"].items())
      machine.rates[scalar] = detail::rates_from_json(rates);
  }
  if (json.contains("gemm"))
    detail::read_figures(json["gemm"], "a machine's gemm",
                         [&](auto f) { for_each_figure(machine.gemm, f); });
  require_valid(machine);
  brief.set(machine, json);
  require_valid(machine);
  return machine;
}

/// Returns the machine that a file describes.
/// @throws DataError for a file that cannot be read, and what `machine_from_json` throws
[[nodiscard]] inline Machine read_machine(const std::string& path, const Machine& machine = {})
{
  constexpr JsonUse use{"so the machine's figures are unknown",
                        "give a file with its figures in JSON, like those in machines/",
                        "look for a comma or a bracket too many, or let cubist_bench machine "
                        "--json write it"};
  return machine_from_json(read_json(path, use), machine);
}

/// Returns the machine as JSON, which `read_machine` reads from a file.
[[nodiscard]] inline nlohmann::json to_json(const Machine& machine)
{
  nlohmann::json json;
  const auto write = [](nlohmann::json& to) {
    return [&to](const std::string& name, const auto& figure) { to[name] = figure; };
  };
  detail::for_each_figure_of_machine(machine, write(json));
  json["algorithms"] = machine.algorithms == CollectiveAlgorithms::mpi ? "mpi" : "nccl";
  for (const auto& link : machine.links)
    detail::for_each_figure_of_link(link, write(json["links"].emplace_back()));
  for (const auto& [scalar, table] : machine.rates) json["rates"][scalar] = detail::to_json(table);
  for_each_figure(machine.gemm, write(json["gemm"]));
  return json;
}

}  // namespace cubist::CUBIST_ABI
