// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Times and tables of a benchmark.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>

namespace bench
{

/// Seconds that f takes.
template <class F>
double seconds(F f)
{
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// @pre there is at least one time
inline double median(std::vector<double> times)
{
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

/// Writes to `path`, or to standard output for "-".
/// @throws cubist::DataError for a file that cannot be written
inline void write_json(const nlohmann::json& json, const std::string& path)
{
  if (path == "-")
  {
    std::cout << json.dump(2) << '\n';
    return;
  }
  std::ofstream file{path};
  file << json.dump(2) << '\n';
  file.flush();
  cubist::require<cubist::DataError>(file.good(), "cannot write ", path,
                                     ", so the results would be lost; pass --json another path");
}

}  // namespace bench
