// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/backend/threads.hpp>
#include <cubist/core/error.hpp>
#include <cubist/nn/networks/mlp.hpp>
#include <cubist/scheme/summa2d.hpp>
#include <cubist/trace/traced.hpp>

#include "common/options.hpp"
#include "common/schemes.hpp"
#include "common/times.hpp"
#include "networks/tracing.hpp"

namespace bench
{

namespace
{

struct TracingOptions : Options
{
  std::size_t tokens = 1024;
  std::vector<std::size_t> layers{512, 1024, 512};
  int steps = 20;
};

/// Calls measure(world, step) on every rank; `step` is forward and backward of a network.
template <class B, class F>
void with_steps(const TracingOptions& options, int ranks, F measure)
{
  using S = cubist::Summa2D;
  using T = float;
  cubist::launch<B>({.ranks = ranks}, [&](auto& world) {
    std::optional<cubist::TracePause> pause{std::in_place};
    const cubist::Mesh<S, B> mesh{world, extents_for<S>(options.mesh, ranks),
                                  cubist::IdleRanks::refused};
    cubist::MLP<S, B, T> mlp{
        mesh,
        options.layers,
        {.activation = cubist::gelu, .seed = 42, .method = parse_method(options.method)}};
    using Activations = cubist::NetworkMatrix<S, B, T>;
    const Activations x{typename Activations::template Matrix<typename S::Input>{
        mesh, {options.tokens, options.layers.front()}}};
    const auto dy = zeros_like(mlp.forward(x));
    const auto step = [&] {
      mlp.forward(x);
      mlp.backward(dy);
    };
    for (int i = 0; i < 2; ++i) step();
    pause.reset();
    measure(world, step);
  });
}

/// Runs f on all ranks, and returns the seconds until the last has finished.
template <class World, class F>
double seconds_together(World& world, F f)
{
  world.barrier();
  return seconds([&] {
    f();
    world.barrier();
  });
}

/// Median seconds of a step: on a backend without traces, on one whose trace is off, and on one
/// that records.
struct Costs
{
  double plain = 0;
  double off = 0;
  double on = 0;
  std::size_t events = 0;  // events that rank 0 records in a step
};

/// Launches each backend once. Recorded and unrecorded steps take turns.
Costs measure_round(const TracingOptions& options, int ranks)
{
  using Traced = cubist::Traced<cubist::Threads>;
  Costs costs;
  with_steps<cubist::Threads>(options, ranks, [&](auto& world, auto& step) {
    std::vector<double> times;
    for (int i = 0; i < options.steps; ++i) times.push_back(seconds_together(world, step));
    if (world.rank() == 0) costs.plain = median(times);
  });
  const auto file = std::filesystem::temp_directory_path() /
                    ("cubist_bench-" + std::to_string(getpid()) + ".json");
  Traced::options = {.file = options.trace.empty() ? file.string() : options.trace};
  with_steps<Traced>(options, ranks, [&](auto& world, auto& step) {
    std::vector<double> off;
    std::vector<double> on;
    const auto recorded = [&] {
      return world.rank() == 0 ? cubist::detail::RankTrace::current()->size() : 0;
    };
    const auto without = [&] {
      const cubist::TracePause pause;
      off.push_back(seconds_together(world, step));
    };
    const auto with = [&] {
      const std::size_t before = recorded();
      on.push_back(seconds_together(world, step));
      if (world.rank() == 0) costs.events = recorded() - before;
    };
    for (int i = 0; i < options.steps; ++i)
    {
      if (i % 2 == 0) without(), with();
      if (i % 2 == 1) with(), without();
    }
    if (world.rank() == 0) costs.off = median(off), costs.on = median(on);
  });
  Traced::options = {};
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return costs;
}

void run_tracing(const Job& job, const TracingOptions& options)
{
  cubist::require<cubist::ArgumentError>(
      !job.mpi, "got MPI processes, but this measures ranks that are threads, so each would "
                "measure the same; start cubist_bench without mpiexec");
  const int ranks = ranks_of(job, options, 4);
  std::array<std::vector<double>, 5> all;
  std::size_t events = 0;
  for (int i = 0; i < options.repeats; ++i)
  {
    const auto c = measure_round(options, ranks);
    const std::array values{c.plain, c.off, c.on, c.off / c.plain, c.on / c.off};
    for (std::size_t j = 0; j < values.size(); ++j) all[j].push_back(values[j]);
    events = c.events;
  }
  const auto of = [&](std::size_t j) { return median(all[j]); };
  auto json = describe(job, "tracing");
  json["rows"].push_back({{"backend", job.backend()},
                          {"ranks", ranks},
                          {"scalar", "float"},
                          {"tokens", options.tokens},
                          {"layers", options.layers},
                          {"method", options.method},
                          {"repeats", options.repeats},
                          {"steps", options.steps},
                          {"events", events},
                          {"seconds", of(2)},
                          {"off_seconds", of(1)},
                          {"plain_seconds", of(0)},
                          {"off_ratio", of(3)},
                          {"on_ratio", of(4)}});
  if (options.json != "-")
    std::printf(
        "Milliseconds of a step on %d threads: without traces; with traces that are off; with "
        "traces.\nRatios: off to without, on to off; medians of %d rounds.\n"
        "%9s %9s %9s %7s %7s %7s\n%9.3f %9.3f %9.3f %7.4f %7.4f %7zu\n",
        ranks, options.repeats, "without", "off", "on", "off", "on", "events", 1e3 * of(0),
        1e3 * of(1), 1e3 * of(2), of(3), of(4), events);
  write_json(json, options.json);
}

}  // namespace

void add_tracing(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<TracingOptions>();
  auto* command =
      app.add_subcommand("tracing", "measures steps of a network with and without a trace");
  add_mesh_options(*command, *options);
  add_method_option(*command, *options);
  add_trace_option(*command, *options);
  command->add_option("--tokens", options->tokens, "the number of tokens")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--layers", options->layers,
                   "the features of the input, between the layers, and of the output")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--steps", options->steps, "the steps of each kind in a round")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--repeats", options->repeats, "rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "write the results to this file; - for standard output");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_tracing(job, *options); }; });
}

}  // namespace bench
