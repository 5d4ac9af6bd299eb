// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The progress of a training run, over the steps since the last report:
//
//   step   300/1000  loss 2.1034  54321 tokens/s  waiting 7 %  2 min 10 s left  held-out 2.2041

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>

#include "cubist/comm/wait_time.hpp"
#include "cubist/matrix/staging.hpp"
#include "cubist/training/run_log.hpp"

namespace cubist::CUBIST_ABI
{

/// Measurements over the steps since the last report.
struct ProgressReport
{
  std::uint64_t step = 0;
  std::uint64_t steps = 0;      // the number of steps of the run
  double loss = 0;              // the mean loss
  double rate = 0;              // samples per second; 0 is not printed
  double waiting = 0;           // the share of the time in which ranks waited for each other
  double seconds_a_step = 0;    // wall-clock time
  std::string unit = "tokens";  // the name of the samples
};

namespace detail
{

[[nodiscard]] inline std::string duration_text(double seconds)
{
  const auto all = static_cast<std::uint64_t>(std::ceil(std::max(0.0, seconds)));
  const std::uint64_t hours = all / 3600, minutes = all / 60 % 60;
  const auto text = [](std::uint64_t n, const char* unit) { return std::to_string(n) + unit; };
  if (hours > 0) return text(hours, " h ") + text(minutes, " min");
  if (minutes > 0) return text(minutes, " min ") + text(all % 60, " s");
  return text(all, " s");
}

template <class... Args>
[[nodiscard]] std::string format_text(const char* format, Args... args)
{
  char text[128];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

}  // namespace detail

/// Collects the steps since the last report.
class ProgressWindow
{
 public:
  /// Adds the loss of one step.
  void add(double loss)
  {
    losses_ += loss;
    ++steps_;
  }
  /// Returns the means over these steps. Every rank of the mesh calls it.
  /// @param samples the number of samples in a step
  /// @pre at least one step was added
  template <class M>
  [[nodiscard]] ProgressReport report(const M& mesh, double samples) const
  {
    const double seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    // Ranks do not begin at the same time, so their times differ.
    std::array<double, 2> sums{wait_seconds() - waited_, seconds};
    detail::all_reduce_numbers(mesh, std::span<double>{sums});
    const auto n = static_cast<double>(steps_);
    return {.loss = losses_ / n,
            .rate = n * samples / seconds,
            .waiting = sums[0] / sums[1],
            .seconds_a_step = seconds / n};
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
  double waited_ = wait_seconds();
  double losses_ = 0;
  std::uint64_t steps_ = 0;
};

/// Returns the line of a report, without a newline.
/// @param metrics the program's metrics, printed last
[[nodiscard]] inline std::string to_string(const ProgressReport& r,
                                           std::span<const NamedValue> metrics = {})
{
  const auto digits = static_cast<int>(std::to_string(r.steps).size());
  std::string line = detail::format_text("step %*" PRIu64 "/%" PRIu64 "  loss %.4f", digits, r.step,
                                         r.steps, r.loss);
  if (r.rate > 0) line += detail::format_text("  %.0f ", r.rate) + r.unit + "/s";
  line += detail::format_text("  waiting %.0f %%", 100 * r.waiting);
  if (r.step < r.steps)
    line += "  " + detail::duration_text(r.seconds_a_step * static_cast<double>(r.steps - r.step)) +
            " left";
  for (const auto& m : metrics) line += "  " + m.name + detail::format_text(" %.4f", m.value);
  return line;
}

}  // namespace cubist::CUBIST_ABI
