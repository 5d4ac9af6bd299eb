// SPDX-License-Identifier: BSD-3-Clause

#include <cstdio>
#include <memory>

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

void run_calls(const Job& job, const CallsOptions& options)
{
  const CallsTask task{ranks_of(job, options, 4), options.repeats, options.warm_up};
  auto json = describe(job, "calls");
  const auto rows = job.mpi ? calls_on_mpi(task) : calls_on_threads(task);
  if (!rows) return;
  if (options.json != "-")
    std::printf("%s, %d ranks, Summa2D, float; of one call, medians\n"
                "%-22s %10s %10s %7s %8s %8s %9s\n",
                job.backend(), task.ranks, "call", "us", "peer us", "ratio", "sleeps", "interr.",
                "core us");
  for (const auto& row : *rows)
  {
    const double ratio = row.peer.median > 0 ? row.times.median / row.peer.median : 0;
    if (options.json != "-")
      std::printf("%-22s %10.1f %10.1f %7.2f %8.2f %8.2f %9.1f\n", row.call.c_str(),
                  1e6 * row.times.median, 1e6 * row.peer.median, ratio, row.sleeps,
                  row.interruptions, 1e6 * row.core_seconds);
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
                            {"sleeps", row.sleeps},
                            {"interruptions", row.interruptions},
                            {"core_seconds", row.core_seconds}});
  }
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
