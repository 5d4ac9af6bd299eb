// SPDX-License-Identifier: BSD-3-Clause

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cubist/core/error.hpp>
#include <cubist/engine/host/blas_threads.hpp>

#include "comm/collectives.hpp"
#include "common/options.hpp"

namespace bench
{

namespace
{

struct CollectivesOptions : Options
{
  std::vector<std::size_t> words{1, 1024, 65'536, 1'048'576};
};

void print(const Job& job, const CollectivesTask& task, const CollectivesResult& result)
{
  std::printf("%s, %d ranks, overlap %s; a rank multiplies %.1f GFLOP/s in double\n"
              "%-15s %10s %12s %12s %12s %9s\n",
              job.backend(), task.ranks, task.overlap ? "on" : "off", result.gemm_gflops,
              "collective", "words", "median us", "minimum us", "words sent", "GB/s");
  for (const auto& row : result.rows)
    std::printf("%-15s %10zu %12.2f %12.2f %12.0f %9.3f\n", row.collective.c_str(), row.words,
                1e6 * row.times.median, 1e6 * row.times.min, row.sent_words,
                row.gigabytes_per_second());
  std::fflush(stdout);
}

void run_collectives(const Job& job, const CollectivesOptions& options)
{
  const bool table = job.first && options.json != "-";
  auto json = describe(job, "collectives");
  const int usual = std::max(2, static_cast<int>(std::thread::hardware_concurrency()));
  for (const bool overlap : overlaps(job, options))
  {
    const CollectivesTask task{ranks_of(job, options, usual), options.repeats, options.warm_up,
                               overlap, options.words};
    const auto result = job.mpi ? collectives_on_mpi(task) : collectives_on_threads(task);
    if (!result) continue;
    if (table) print(job, task, *result);
    for (const auto& row : result->rows)
      json["rows"].push_back({{"collective", row.collective},
                              {"backend", job.backend()},
                              {"ranks", task.ranks},
                              {"nodes", job.nodes},
                              {"overlap", overlap},
                              {"scalar", "double"},
                              {"bytes_per_word", 8},
                              {"repeats", task.repeats},
                              {"warm_up", task.warm_up},
                              {"words", row.words},
                              {"seconds", row.times.median},
                              {"min_seconds", row.times.min},
                              {"most_words_per_rank", row.sent_words},
                              {"messages_per_rank", row.sent_messages},
                              {"gigabytes_per_second", row.gigabytes_per_second()},
                              {"gemm_gflops_per_rank", result->gemm_gflops}});
  }
  if (job.first) write_json(json, options.json);
}

}  // namespace

void add_collectives(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<CollectivesOptions>();
  auto* command =
      app.add_subcommand("collectives", "measures the latency and bandwidth of each collective");
  add_run_options(*command, *options);
  add_ranks_option(*command, *options);
  command->add_option("--words", options->words, "the elements (double) of one piece")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([options, &action] {
    action = [options](const Job& job) { run_collectives(job, *options); };
  });
}

}  // namespace bench
