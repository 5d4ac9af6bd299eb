// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "comm/calls.hpp"
#include "common/options.hpp"

namespace bench
{

namespace
{

struct CallsOptions : Options
{
  CallsOptions() { repeats = 21; }
};

/// Prints where the time of all cores goes in one call.
void print_causes(const std::vector<CallRow>& rows)
{
  std::printf(
      "\nus of all cores in one call: work that one rank does alone, other time outside the "
      "kernel, time in the kernel, and idle time; calls of the kernel\n"
      "%-22s %8s %8s %8s %8s %9s %7s %7s %7s\n",
      "call", "work", "rest", "kernel", "idle", "switches", "yields", "waits", "wakes");
  for (const auto& row : rows)
    std::printf("%-22s %8.1f %8.1f %8.1f %8.1f %9.2f %7.2f %7.2f %7.2f\n", row.call.c_str(),
                1e6 * row.work, 1e6 * (row.user - row.work), 1e6 * row.kernel, 1e6 * row.idle,
                row.switches, row.yields, row.futex_waits, row.futex_wakes);
}

void run_calls(const Job& job, const CallsOptions& options)
{
  const CallsTask task{ranks_of(job, options, 4), options.repeats, options.warm_up};
  auto json = describe(job, "calls");
  const auto rows = job.mpi ? calls_on_mpi(task) : calls_on_threads(task);
  if (!rows) return;
  const bool prints = options.json != "-";
  if (prints)
    std::printf("%s, %d ranks, Summa2D, float; medians of one call\n%-22s %10s %10s %7s\n",
                job.backend(), task.ranks, "call", "us", "peer us", "ratio");
  for (const auto& row : *rows)
  {
    const double ratio = row.peer.median > 0 ? row.times.median / row.peer.median : 0;
    if (prints)
      std::printf("%-22s %10.1f %10.1f %7.2f\n", row.call.c_str(), 1e6 * row.times.median,
                  1e6 * row.peer.median, ratio);
    json["rows"].push_back({{"call", row.call},
                            {"backend", job.backend()},
                            {"scheme", "Summa2D"},
                            {"ranks", task.ranks},
                            {"scalar", "float"},
                            {"repeats", task.repeats},
                            {"warm_up", task.warm_up},
                            {"seconds", row.times.median},
                            {"min_seconds", row.times.min},
                            {"peer_seconds", row.peer.median},
                            {"ratio", ratio},
                            {"work_seconds", row.work},
                            {"user_seconds", row.user},
                            {"kernel_seconds", row.kernel},
                            {"idle_seconds", row.idle},
                            {"switches", row.switches},
                            {"yields", row.yields},
                            {"futex_waits", row.futex_waits},
                            {"futex_wakes", row.futex_wakes}});
  }
  if (prints) print_causes(*rows);
  write_json(json, options.json);
}

}  // namespace

void add_calls(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<CallsOptions>();
  auto* command = app.add_subcommand(
      "calls", "measures calls that compute and send little, beside std::barrier, MPI and BLAS");
  add_run_options(*command, *options);
  add_ranks_option(*command, *options);
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_calls(job, *options); }; });
}

}  // namespace bench
