// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Times of repeated runs.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <vector>

namespace bench
{

/// Runs f, and returns the seconds it took.
template <class F>
double seconds(F f)
{
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The seconds for which this thread has had a processor.
inline double processor_seconds()
{
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// @pre there is at least one time
inline double median(std::vector<double> times)
{
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  if (times.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(times.begin(), middle)) / 2;
}

/// A summary of repeated runs, in seconds; zeros if there were none.
struct Times
{
  double median = 0;
  double min = 0;

  Times() = default;
  explicit Times(const std::vector<double>& times)
  {
    if (times.empty()) return;
    median = bench::median(times);
    min = *std::min_element(times.begin(), times.end());
  }
};

}  // namespace bench
