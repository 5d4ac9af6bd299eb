// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Reads the latency and the bandwidth of a link from tables that other benchmarks print: nccl-tests
// and the OSU micro-benchmarks.
//
//   nccl-tests         latency: the time of the smallest message, divided by the number of messages
//                      that follow each other in the collective; bandwidth: the largest bus
//                      bandwidth of a row
//   osu_latency        latency: that of the smallest message
//   osu_bw, osu_bibw   bandwidth: the largest; for osu_bibw half of it, which is one direction
//
// A file may have several tables, like a log of several runs.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <cubist/core/error.hpp>
#include <cubist/machine/machine.hpp>

namespace bench
{

/// What tables say about a link; 0 where they say nothing.
struct LinkTable
{
  double latency = 0;    // seconds
  double bandwidth = 0;  // bytes a second
  int ranks = 0;         // ranks that took part
};

namespace detail
{

[[nodiscard]] inline std::vector<std::string> words_of(const std::string& line)
{
  std::istringstream in{line};
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Returns the number that a word stands for; negative if it is not a number.
[[nodiscard]] inline double number_in(const std::string& word)
{
  std::size_t end = 0;
  try
  {
    const double number = std::stod(word, &end);
    return end == word.size() ? number : -1;
  }
  catch (const std::exception&)
  {
    return -1;
  }
}

/// Keeps the smallest latency and the largest bandwidth of several tables.
inline void take(LinkTable& link, double latency, double bandwidth)
{
  if (latency > 0) link.latency = link.latency == 0 ? latency : std::min(link.latency, latency);
  link.bandwidth = std::max(link.bandwidth, bandwidth);
}

}  // namespace detail

/// Reads tables of nccl-tests. Rows are "size count type redop root time algbw busbw #wrong …";
/// some collectives leave out the operation or the root.
/// @throws cubist::DataError if there is no row
[[nodiscard]] inline LinkTable read_nccl_tests(std::istream& in, const std::string& name)
{
  LinkTable link;
  double smallest = 0;  // bytes
  double time = 0;      // seconds of the smallest message
  std::size_t first_column = 0;
  bool sends = false;
  for (std::string line; std::getline(in, line);)
  {
    const auto words = detail::words_of(line);
    if (words.empty()) continue;
    if (line.find("sendrecv") != std::string::npos) sends = true;
    if (words[0] == "#")
    {
      // "#  Rank  3 Group  0 Pid …"; the first time is in the column below "time".
      if (words.size() > 2 && words[1] == "Rank")
        link.ranks = std::max(link.ranks, static_cast<int>(detail::number_in(words[2])) + 1);
      const auto column = std::find(words.begin(), words.end(), "time");
      if (column != words.end())
        first_column = static_cast<std::size_t>(column - words.begin()) - 1;
      continue;
    }
    const double bytes = detail::number_in(words[0]);
    if (bytes <= 0 || first_column == 0 || words.size() < first_column + 3) continue;
    const double seconds = detail::number_in(words[first_column]) / 1e6;
    const double bandwidth = detail::number_in(words[first_column + 2]) * 1e9;
    if (seconds <= 0 || bandwidth < 0) continue;
    if (smallest == 0 || bytes < smallest) smallest = bytes, time = seconds;
    detail::take(link, 0, bandwidth);
  }
  cubist::require<cubist::DataError>(
      smallest > 0, "got ", name,
      " without a row of nccl-tests, so the link's figures are unknown; give what all_reduce_perf "
      "or sendrecv_perf prints, including the line that names its columns");
  // A collective sends small messages up and down a tree.
  const int others = std::max(1, link.ranks - 1);
  const int rounds =
      sends ? 1 : 2 * static_cast<int>(std::bit_width(static_cast<unsigned>(others)));
  link.latency = time / rounds;
  return link;
}

/// Reads tables of osu_latency, osu_bw and osu_bibw. Rows are "size value".
/// @throws cubist::DataError if there is no row
[[nodiscard]] inline LinkTable read_osu(std::istream& in, const std::string& name)
{
  LinkTable link;
  enum class Table
  {
    none,
    latency,
    bandwidth,
    both_directions
  } table = Table::none;
  for (std::string line; std::getline(in, line);)
  {
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    if (has("# OSU"))
      table = has("Bi-Directional") ? Table::both_directions
              : has("Bandwidth")    ? Table::bandwidth
              : has("Latency")      ? Table::latency
                                    : Table::none;
    const auto words = detail::words_of(line);
    if (table == Table::none || words.size() < 2 || words[0] == "#") continue;
    const double bytes = detail::number_in(words[0]);
    const double value = detail::number_in(words[1]);
    if (bytes < 0 || value <= 0) continue;
    if (table == Table::latency)
      detail::take(link, value / 1e6, 0);
    else
      detail::take(link, 0, value * 1e6 / (table == Table::both_directions ? 2 : 1));
  }
  cubist::require<cubist::DataError>(
      link.latency > 0 || link.bandwidth > 0, "got ", name,
      " without a row of the OSU micro-benchmarks, so the link's figures are unknown; give what "
      "osu_latency, osu_bw or osu_bibw prints, including the line that names it");
  return link;
}

/// Sets the figures of a link that the tables list.
inline void set_link(cubist::Link& link, const LinkTable& table)
{
  if (table.latency > 0) link.latency = table.latency;
  if (table.bandwidth > 0) link.bandwidth = table.bandwidth;
}

/// Reads the tables in a file.
/// @throws cubist::DataError if the file cannot be read; what `read` throws
template <class Read>
[[nodiscard]] LinkTable read_link_table(const std::string& file, Read read)
{
  std::ifstream in{file};
  cubist::require<cubist::DataError>(
      in.good(), "cannot read ", file,
      ", so the link's figures are unknown; give the file that has the "
      "benchmark's output");
  return read(in, file);
}

}  // namespace bench
