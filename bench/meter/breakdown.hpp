// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Shows where the time of a step goes, from a trace with processor times
// (TraceOptions::processor_time).
//
// A step that takes T seconds on C cores has C T seconds of their time. Each event of a rank counts
// for the time in which the rank's thread had a processor, so the shares of all ranks add up,
// however many share a core. During the rest of C T, cores were idle because ranks waited for one
// another, or they ran other programs. The kernel counts both.
//
// An event belongs to the innermost of these parts of the program around it: attention, norm, loss,
// embedding, and the update of a parameter. Recording an event takes time, too. A trace has a part
// that only records empty events; their time is subtracted from the others, and shown separately.

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "meter/core_times.hpp"

namespace bench
{

/// The names of the two parts that a breakdown reads from a trace: a step, and empty events.
inline constexpr const char* step_part = "step";
inline constexpr const char* cost_part = "cost of events";

/// Calls of one kind in a step.
struct StepCall
{
  std::string group;     // "layers", "attention", "norm", …
  std::string category;  // "product", "pass" or "wait"
  std::string name;      // "gemm 64x256x64" or "map AddAndActivate<GeluTanh> 512x128"
  std::string operands;  // whether a product's A and B are stored transposed, as "nt"
  std::size_t bytes = 0;

  friend auto operator<=>(const StepCall&, const StepCall&) = default;
};

/// The time that calls of one kind take in a step.
struct CallTimes
{
  double count = 0;             // calls of all ranks
  std::vector<double> seconds;  // processor time of each rank

  [[nodiscard]] double sum() const
  {
    double all = 0;
    for (const double s : seconds) all += s;
    return all;
  }
};

/// Means over the steps of a trace.
struct StepProfile
{
  int ranks = 0;
  int steps = 0;
  bool has_processor_times = false;  // if not, events count as a whole, and waits do not count
  double seconds = 0;                // seconds of a step
  std::map<StepCall, CallTimes> calls;
  std::vector<double> bookkeeping;  // each rank's seconds outside any call
  double measuring = 0;             // seconds that recording the events took on all ranks
};

/// Reads a trace. If it has no part "step", all of it is one step.
/// @throws cubist::DataError if the file is not a trace
[[nodiscard]] StepProfile read_profile(const std::string& file);

/// What a breakdown is compared with.
struct StepContext
{
  int cores = 1;
  double blas_seconds = 0;  // the step's products by BLAS on all cores; 0: not measured
  CoreTimes machine = {};   // what the cores did in a step; zeros: not known
};

/// Measures products and copies alone, prints tables unless `prints` is false, and returns them.
[[nodiscard]] nlohmann::json break_down(const StepProfile& profile, const StepContext& context,
                                        bool prints);

}  // namespace bench
