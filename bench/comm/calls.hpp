// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures calls that send and compute little: collectives, products from 64^3 up, and a step of
// the README's network, each many times in a row.

#include <optional>
#include <string>
#include <vector>

#include "common/job.hpp"
#include "common/times.hpp"

namespace CLI
{
class App;
}

namespace bench
{

struct CallsTask
{
  int ranks = 1;
  int repeats = 5;
  int warm_up = 1;
};

/// One of many calls in a row. Counts and processor times are summed over all ranks.
struct CallRow
{
  std::string call;
  Times times = {};
  Times peer = {};         // std::barrier, MPI's collective, or BLAS on all cores
  double work = 0;         // seconds of the same calls on single ranks, which wait for nobody
  double user = 0;         // seconds outside the kernel
  double kernel = 0;       // seconds in the kernel
  double idle = 0;         // seconds in which cores do nothing for the call
  double switches = 0;     // from one thread to another
  double yields = 0;       // calls of sched_yield
  double futex_waits = 0;  // calls that sleep until another rank wakes the caller
  double futex_wakes = 0;  // calls that wake other ranks
};

/// Runs the benchmark. Every process calls it; the first one gets the result.
[[nodiscard]] std::optional<std::vector<CallRow>> calls_on_threads(const CallsTask& task);
[[nodiscard]] std::optional<std::vector<CallRow>> calls_on_mpi(const CallsTask& task);

/// Adds the subcommand, which sets `action`.
void add_calls(CLI::App& app, Action& action);

}  // namespace bench
