// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A rank's trace as JSON, in the format of Chrome's traces, which ui.perfetto.dev opens. Each rank
// is a process with one row "compute", and as many rows "communication" as it has calls in flight
// at a time.
//
// Source: "Trace Event Format", the Chromium project.

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cubist/trace/rank_trace.hpp"

namespace cubist::CUBIST_ABI::detail
{

[[nodiscard]] inline const char* to_string(TraceCategory category)
{
  constexpr const char* names[] = {"part", "product", "pass", "wait", "communication"};
  return names[static_cast<std::size_t>(category)];
}

/// Returns the row of each event: 0 for computation, and 1, 2, … for communication, so that no two
/// events of a row overlap.
[[nodiscard]] inline std::vector<std::size_t> rows_of(const std::vector<TraceEvent>& events)
{
  std::vector<std::size_t> calls;
  for (std::size_t i = 0; i < events.size(); ++i)
    if (events[i].category == TraceCategory::communication) calls.push_back(i);
  std::ranges::stable_sort(calls, {}, [&](std::size_t i) { return events[i].begin; });
  std::vector<std::size_t> rows(events.size(), 0);
  std::vector<double> free_from;  // the time from which each row is free
  for (const std::size_t i : calls)
  {
    const auto row =
        std::ranges::find_if(free_from, [&](double time) { return time <= events[i].begin; });
    rows[i] = static_cast<std::size_t>(row - free_from.begin()) + 1;
    if (row == free_from.end())
      free_from.push_back(events[i].end);
    else
      *row = events[i].end;
  }
  return rows;
}

/// Returns what a trace says about a call of the engine in addition to its name.
[[nodiscard]] inline nlohmann::json call_arguments(const TraceEvent& e)
{
  nlohmann::json arguments{{"bytes", e.bytes}};
  if (e.category == TraceCategory::product)
    arguments["operands"] = std::string{e.transposes_a ? 't' : 'n', e.transposes_b ? 't' : 'n'};
  if (!e.function.empty()) arguments["function"] = e.function;
  return arguments;
}

/// Returns a rank's events and the names of its rows, one per line, separated by commas.
/// @param zero the time from which the trace counts
[[nodiscard]] inline std::string chrome_events(const std::vector<TraceEvent>& events, int rank,
                                               double zero)
{
  using nlohmann::json;
  std::string text;
  const auto add = [&](const json& event) { text += (text.empty() ? "" : ",\n") + event.dump(); };
  const auto name = [&](const char* what, std::size_t row, const std::string& value) {
    add({{"ph", "M"}, {"pid", rank}, {"tid", row}, {"name", what}, {"args", {{"name", value}}}});
  };
  const auto rows = rows_of(events);
  name("process_name", 0, "rank " + std::to_string(rank));
  add({{"ph", "M"},
       {"pid", rank},
       {"name", "process_sort_index"},
       {"args", {{"sort_index", rank}}}});
  name("thread_name", 0, "compute");
  const std::size_t last = rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
  for (std::size_t row = 1; row <= last; ++row) name("thread_name", row, "communication");
  constexpr double microseconds = 1e6;
  for (std::size_t i = 0; i < events.size(); ++i)
  {
    const TraceEvent& e = events[i];
    json event = {{"ph", "X"},
                  {"pid", rank},
                  {"tid", rows[i]},
                  {"ts", (e.begin - zero) * microseconds},
                  {"dur", (e.end - e.begin) * microseconds},
                  {"cat", to_string(e.category)}};
    if (e.processor >= 0) event["tdur"] = e.processor * microseconds;
    if (e.ranks == 0)
    {
      event["name"] = e.name.to_string();
      if (e.category == TraceCategory::product || e.category == TraceCategory::pass)
        event["args"] = call_arguments(e);
    }
    else
    {
      event["name"] = (e.category == TraceCategory::wait ? "wait for " : "") + e.name.to_string();
      event["args"] = {{"elements", e.name.numbers[0]},
                       {"ranks", e.ranks},
                       {"elements sent", e.sent.elements},
                       {"messages", e.sent.messages}};
    }
    add(event);
  }
  return text;
}

}  // namespace cubist::CUBIST_ABI::detail
