// SPDX-License-Identifier: BSD-3-Clause

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <cubist/backend/threads.hpp>
#include <cubist/core/error.hpp>
#include <cubist/engine/host/blas_threads.hpp>
#include <cubist/io/checkpoints.hpp>
#include <cubist/nn/losses/loss.hpp>
#include <cubist/nn/networks/mlp.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/scheme/megatron1d.hpp>

#include "common/options.hpp"
#include "common/times.hpp"
#include "networks/saves.hpp"

namespace bench
{

namespace
{

struct SavesOptions : Options
{
  std::size_t tokens = 512;
  std::vector<std::size_t> layers{1024, 4096, 1024};
  std::size_t steps = 50;
  std::size_t copies = 1;
  int blas_threads = 0;
  std::string folder;
};

/// The measured values, in the order of the columns.
constexpr std::array value_names{
    "copy_seconds", "stall_seconds",       "stall_to_copy",    "step_seconds", "step_to_others",
    "save_seconds", "background_to_never", "at_once_to_never", "load_seconds", "read_to_load"};

/// Values of each round.
using Values = std::array<std::vector<double>, value_names.size()>;

void measure(const SavesOptions& options, int ranks, const std::filesystem::path& folder,
             Values& values)
{
  using S = cubist::Megatron1D;
  using B = cubist::Threads;
  using T = float;
  cubist::launch<B>({.ranks = ranks}, [&](auto& world) {
    std::optional<cubist::BlasThreads> blas;
    if (options.blas_threads > 0) blas.emplace(options.blas_threads);
    const cubist::Mesh<S, B> mesh{world, {.p = ranks}};
    cubist::MLP<S, B, T> mlp{mesh, options.layers, {.activation = cubist::gelu, .seed = 42}};
    cubist::AdamW optimizer{mlp.parameters()};
    using Activations = cubist::NetworkMatrix<S, B, T>;
    const Activations x{typename Activations::template Matrix<typename S::Input>{
        mesh, {options.tokens, options.layers.front()}}};
    const auto dy = zeros_like(mlp.forward(x));
    const auto step = [&] {
      mlp.forward(x);
      mlp.backward(dy);
      optimizer.step(mlp.parameters());
    };
    const auto state = state_of(mlp, optimizer);
    cubist::Checkpoints checkpoints{mesh, folder, {.keep = 1, .copies = options.copies}};
    std::uint64_t saved = 0;
    const auto together = [&](auto f) {
      world.barrier();
      return seconds([&] {
        f();
        world.barrier();
      });
    };
    const auto is_written = [&] {
      std::vector<int> written{std::filesystem::exists(checkpoints.file(saved)) ? 1 : 0};
      world.broadcast(written, 0);
      return written[0] != 0;
    };
    std::vector<B::Engine::Buffer<T>> copies;
    for (const auto& m : state.matrices) copies.emplace_back(m.matrix.valid().size());
    const auto copy = [&] {
      for (std::size_t i = 0; i < copies.size(); ++i)
      {
        const auto from = state.matrices[i].matrix;
        if (!from.is_primary(mesh.rank())) continue;
        const auto block = from.valid();
        for (std::size_t r = 0; r < block.rows(); ++r)
          std::memcpy(copies[i].data() + r * block.cols(), block.row(r), block.cols() * sizeof(T));
      }
    };
    const auto run = [&](auto save) {
      return together([&] {
        for (std::size_t i = 0; i < options.steps; ++i) step();
        save();
      });
    };
    for (int i = 0; i < 2; ++i) step(), copy();
    checkpoints.save_in_background(++saved, state);
    checkpoints.wait();

    for (int round = 0; round < options.repeats; ++round)
    {
      std::array<double, value_names.size()> v{};
      std::vector<double> during, others;
      v[0] = together(copy);
      v[1] = together([&] { checkpoints.save_in_background(++saved, state); });
      // A step counts if the file still has no name when the step ends.
      for (bool written = false; !written;)
      {
        const double time = together(step);
        written = is_written();
        if (!written || during.empty()) during.push_back(time);
      }
      checkpoints.wait();
      for (std::size_t i = 0; i < during.size(); ++i) others.push_back(together(step));
      v[2] = v[1] / v[0];
      v[3] = median(others);
      v[4] = median(during) / v[3];
      v[5] = together([&] { checkpoints.save(++saved, state); });
      const auto in_background = [&] { checkpoints.save_in_background(++saved, state); };
      const auto at_once = [&] { checkpoints.save(++saved, state); };
      const double never = run([] {});
      v[6] = run(in_background) / never;
      v[6] = (v[6] + run(in_background) / run([] {})) / 2;
      checkpoints.wait();
      v[7] = run(at_once) / run([] {});
      v[8] = together([&] { checkpoints.load(saved, state); });
      // For comparison, each rank reads its share of the file in one call.
      const cubist::File file{checkpoints.file(saved).string(), cubist::File::Mode::read};
      const std::uint64_t share = file.bytes() / static_cast<std::uint64_t>(ranks);
      std::vector<std::byte> bytes(share);
      file.read(share * static_cast<std::uint64_t>(world.rank()), bytes);
      v[9] = together([&] { file.read(share * static_cast<std::uint64_t>(world.rank()), bytes); }) /
             v[8];
      if (world.rank() != 0) continue;
      for (std::size_t i = 0; i < v.size(); ++i) values[i].push_back(v[i]);
    }
  });
}

void run_saves(const Job& job, const SavesOptions& options)
{
  cubist::require<cubist::ArgumentError>(
      !job.mpi, "got MPI processes, but this measures ranks that are threads, so each would "
                "measure the same; start cubist_bench without mpiexec");
  const int ranks = ranks_of(job, options, 1);
  const auto parent = options.folder.empty() ? std::filesystem::temp_directory_path()
                                             : std::filesystem::path{options.folder};
  const auto folder = parent / ("cubist_bench-" + std::to_string(getpid()));
  Values values;
  try
  {
    measure(options, ranks, folder, values);
  }
  catch (...)
  {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
    throw;
  }
  const auto bytes = std::filesystem::file_size(std::filesystem::directory_iterator { folder }
                                                -> path());  // the only checkpoint
  std::filesystem::remove_all(folder);
  auto json = describe(job, "saves");
  auto& row = json["rows"].emplace_back(nlohmann::json{{"backend", job.backend()},
                                                       {"ranks", ranks},
                                                       {"scalar", "float"},
                                                       {"tokens", options.tokens},
                                                       {"layers", options.layers},
                                                       {"steps", options.steps},
                                                       {"copies", options.copies},
                                                       {"blas_threads", options.blas_threads},
                                                       {"repeats", options.repeats},
                                                       {"bytes", bytes}});
  std::array<double, value_names.size()> v{};
  for (std::size_t i = 0; i < v.size(); ++i) row[value_names[i]] = v[i] = median(values[i]);
  row["seconds"] = v[3];
  if (options.json != "-")
    std::printf("A state of %.1f MiB on %d threads; medians of %d rounds, in ms, and ratios.\n"
                "copy: copies the state in memory. stall: calls save_in_background; ratio: stall / "
                "copy.\nstep: a step; ratio: a step during a write / step. save: calls save. "
                "background, at once: %zu steps\nwith save_in_background or save / as many steps "
                "without. load: loads the state. read: reads the file's bytes / load.\n"
                "%8s %8s %7s %8s %7s %8s %10s %8s %8s %7s\n"
                "%8.1f %8.1f %7.3f %8.1f %7.3f %8.1f %10.4f %8.4f %8.1f %7.3f\n",
                static_cast<double>(bytes) / (1 << 20), ranks, options.repeats, options.steps,
                "copy", "stall", "ratio", "step", "ratio", "save", "background", "at once", "load",
                "read", 1e3 * v[0], 1e3 * v[1], v[2], 1e3 * v[3], v[4], 1e3 * v[5], v[6], v[7],
                1e3 * v[8], v[9]);
  write_json(json, options.json);
}

}  // namespace

void add_saves(CLI::App& app, Action& action)
{
  const auto options = std::make_shared<SavesOptions>();
  auto* command = app.add_subcommand(
      "saves",
      "measures what save, save_in_background and load of checkpoints cost a training run");
  command->add_option("--ranks", options->ranks, "the number of ranks")->check(CLI::PositiveNumber);
  command->add_option("--tokens", options->tokens, "the number of tokens")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--layers", options->layers,
                   "the features of the input, between the layers, and of the output")
      ->delimiter(',')
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--steps", options->steps, "the steps of a run that saves once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--copies", options->copies, "copies of the state that are kept, 0 or 1")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  command
      ->add_option("--blas-threads", options->blas_threads,
                   "threads of each rank's BLAS, of which fewer leave cores free; 0 for all of its "
                   "cores")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--folder", options->folder,
                      "where to save; by default the folder of temporary files");
  command->add_option("--repeats", options->repeats, "rounds")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--json", options->json,
                      "write the results to this file; - for standard output");
  command->callback(
      [options, &action] { action = [options](const Job& job) { run_saves(job, *options); }; });
}

}  // namespace bench
