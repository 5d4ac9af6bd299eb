// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What checkpoints cost a plan, and how often to save them.
//
//   stall     a rank copies the parameters and the optimizer's state of its block:
//             2 bytes / bandwidth of memory
//   write     the file system takes the state of the whole network:
//             bytes of all / write_bandwidth of the machine
//   interval  sqrt(2 C M), where a save costs C and the job fails every M seconds on average
//
// A save in the background costs the stall, and saves follow each other no faster than the disk
// writes. A save for which the run waits costs stall and write. Saves take C / interval of a run's
// time, and steps that a failure loses take (interval / 2 + write) / M: half an interval and, in
// the background, the time until the copy is a checkpoint.
//
// Source: Young, "A first order approximation to the optimum checkpoint interval", CACM 17 (9),
// 1974.

#include <algorithm>
#include <cmath>

#include "cubist/core/error.hpp"
#include "cubist/core/finite.hpp"
#include "cubist/machine/machine.hpp"
#include "cubist/plan/plan.hpp"

namespace cubist::CUBIST_ABI
{

/// How often to save in one of the two ways.
struct SaveInterval
{
  double seconds = 0;  ///< seconds from one save to the next
  double steps = 1;    ///< steps from one save to the next, at least 1
  /// The share of a run's time that saves and failures cost.
  double overhead = 0;
};

/// The cost of saves for a plan.
struct SavePlan
{
  double bytes = 0;            ///< bytes of a checkpoint
  double copy = 0;             ///< bytes of the copy that a rank keeps
  double stall = 0;            ///< seconds in which the rank copies
  double write = 0;            ///< seconds in which the file system writes
  SaveInterval in_background;  ///< how often to save while the run continues
  SaveInterval at_once;        ///< how often to save if the run waits
};

namespace detail
{

/// @param cost  the seconds for which a save stops the run
/// @param least  the fewest seconds from one save to the next
/// @param delay  the seconds for which the run continues before the saved state is a checkpoint
[[nodiscard]] inline SaveInterval save_interval(double cost, double least, double delay,
                                                double step, double failures)
{
  SaveInterval interval;
  interval.steps =
      std::max(1.0, std::round(std::max(std::sqrt(2 * cost * failures), least) / step));
  if (interval.steps * step < least) interval.steps += 1;
  interval.seconds = interval.steps * step;
  interval.overhead = cost / interval.seconds + (interval.seconds / 2 + delay) / failures;
  return interval;
}

}  // namespace detail

/// Returns what saves cost a plan, and how often to save.
/// @param parameters  the number of elements of the network's parameters
/// @param options  the options of the plan
/// @param failures  the mean time between failures of the whole job, in seconds
/// @throws ArgumentError unless `failures` is positive and finite
[[nodiscard]] inline SavePlan plan_saves(const Plan& plan, double parameters,
                                         const Machine& machine, const PlanOptions& options,
                                         double failures)
{
  require<ArgumentError>(failures > 0 && is_finite(failures), "got a failure every ", failures,
                         " s, so no interval between saves can be computed; use a positive time");
  SavePlan saves;
  saves.bytes = parameters * double(options.scalar_bytes) * (1 + options.moments);
  saves.copy = plan.memory_parts.parameters + plan.memory_parts.optimizer;
  saves.stall = 2 * saves.copy / machine.pass_bandwidth(plan.ranks);
  saves.write = saves.bytes / machine.write_bandwidth;
  const double step = plan.seconds();
  saves.in_background =
      detail::save_interval(saves.stall, saves.write, saves.write, step, failures);
  saves.at_once = detail::save_interval(saves.stall + saves.write, 0, 0, step, failures);
  return saves;
}

}  // namespace cubist::CUBIST_ABI
