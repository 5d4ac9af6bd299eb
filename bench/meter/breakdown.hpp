// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where the time of a step goes, from a trace that has the time of processors
// (TraceOptions::processor_time).
//
// A step that takes T on C cores has C T of their time. Each event of a rank has as much of it as
// the rank's thread had a processor, so that the shares of all ranks add up, however many share a
// core. What is left of C T is time in which cores were idle, as ranks waited for one another, or
// in which they ran other programs: the kernel counts both.
//
// Events belong to the innermost of these parts of the program: attention, norm, loss, embedding,
// and the update of a parameter. Recording an event takes time itself. A trace has a part in which
// nothing but events happens; their times are subtracted, and shown apart.

#include <compare>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "meter/core_times.hpp"

namespace bench
{

/// The parts of the trace that a breakdown reads: a step, and empty events.
inline constexpr const char* step_part = "step";
inline constexpr const char* cost_part = "cost of events";

/// Calls of one kind in a step.
struct StepCall
{
  std::string group;     // "layers", "attention", "norm", …
  std::string category;  // "product", "pass" or "wait"
  std::string name;      // "gemm 64x256x64" or "map AddAndActivate<GeluTanh> 512x128"
  std::string operands;  // of a product: whether A and B are stored transposed, as "nt"
  std::size_t bytes = 0;

  friend auto operator<=>(const StepCall&, const StepCall&) = default;
};

/// What calls of one kind take in a step.
struct CallTimes
{
  double count = 0;             // of all ranks
  std::vector<double> seconds;  // of the processor, of each rank

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
  bool has_processor_times = false;  // else of events as a whole, and waits have none
  double seconds = 0;                // of a step
  std::map<StepCall, CallTimes> calls;
  std::vector<double> bookkeeping;  // of each rank: all that is in no call
  double measuring = 0;             // of all ranks: what recording the events took
};

/// Reads a trace. Without a part "step" all of it is one step.
/// @throws cubist::DataError for a file that is no trace
[[nodiscard]] StepProfile read_profile(const std::string& file);

/// What a breakdown is compared with.
struct StepContext
{
  int cores = 1;
  double blas_seconds = 0;  // of the step's products by BLAS on all cores; 0: not measured
  CoreTimes machine = {};   // in a step; zeros: not known
};

/// Measures products and copies alone, prints tables unless `prints` is false, and returns them.
[[nodiscard]] nlohmann::json break_down(const StepProfile& profile, const StepContext& context,
                                        bool prints);

}  // namespace bench
