// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Trains an MLP on the digits, on any scheme and backend, and compares loss curves.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/dataset/row_batches.hpp>
#include <cubist/training/trainer.hpp>

namespace digits
{

struct Settings
{
  std::string scheme = "summa25d";
  int replicas = 1;
  std::vector<int> mesh;
  std::string scalar = "double";
  std::string data = CUBIST_DIGITS_CSV;
  std::string losses;
  std::string log;
  std::string trace;
  std::vector<std::size_t> hidden = {128};
  std::string checkpoints;
  std::uint64_t every = 50;
  std::size_t keep = 3;
  bool background = false;
  std::uint64_t epochs = 20;
  std::uint64_t steps = 0;
  std::size_t batch = 64;
  double learning_rate = 2e-3;
  double dropout = 0;
  std::uint64_t seed = 42;
  bool compare = true;
};

/// Reads the images, 64 pixels per line, and their labels, and holds out a fifth of them.
/// @throws cubist::DataError for a file that is missing, truncated, or holds something else
inline cubist::RowBatches read(const Settings& s)
{
  const cubist::CsvFile file{s.data};
  return {file, {.batch = s.batch, .seed = s.seed, .held_out = 0.2, .normalize = true}};
}

/// What a run returns on rank 0. It is empty in processes without that rank.
struct Run
{
  std::vector<double> losses;  // the losses of every step since the start or the checkpoint
  double accuracy = 0;         // on the held-out part
  int exit_code = 0;
};

/// @param verbose whether to report and save
template <class Backend, class Scheme, class T>
Run train(const cubist::RowBatches& data, const Settings& s, int ranks,
          const typename Scheme::Axes::Array& extents, bool verbose)
{
  Run run;
  std::atomic<int> exit_code = 0;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    if (first && verbose)
      std::printf("%s on %d ranks, %s, %zu digits to learn and %zu held out\n", Scheme::name,
                  world.size(), s.scalar.c_str(), std::size_t{data.training_count()},
                  std::size_t{data.held_out_count()});
    const cubist::Mesh<Scheme, Backend> mesh{world, extents, cubist::IdleRanks::refused};
    std::vector<std::size_t> sizes{data.features()};
    sizes.insert(sizes.end(), s.hidden.begin(), s.hidden.end());
    sizes.push_back(data.classes());
    using Network = cubist::MLP<Scheme, Backend, T>;
    Network mlp{mesh, sizes, {.activation = cubist::gelu, .dropout = s.dropout, .seed = s.seed}};
    cubist::Sharded<cubist::Adam<T, typename Network::Mesh>> optimizer{
        mlp.parameters(), {.learning_rate = s.learning_rate}};

    const std::uint64_t epoch = data.batches_per_epoch();
    cubist::TrainerOptions options{.steps = s.steps > 0 ? s.steps : s.epochs * epoch};
    if (verbose)
    {
      options.checkpoints = s.checkpoints;
      options.save_every = s.every;
      options.keep = s.keep;
      options.save_in_background = s.background;
      options.report_every = epoch;
      options.samples = s.batch;
      options.unit = "digits";
      options.log = s.log;
    }
    cubist::Trainer trainer{mlp, optimizer, options};
    const auto training = trainer.run(
        [&](const cubist::MicroBatch& b) {
          const auto [x, labels] = data.batch<T, typename Scheme::Input>(mesh, b.index);
          return mlp.compute_gradients(x, labels, b.gradient_scale);
        },
        [&](std::uint64_t) {
          const auto [x, labels] = data.held_out<T, typename Scheme::Input>(mesh);
          const auto score = mlp.evaluate(x, labels);
          if (first) run.accuracy = score.accuracy;
          return std::vector<cubist::NamedValue>{{"held-out loss", score.loss},
                                                 {"accuracy", score.accuracy}};
        });
    exit_code = training.exit_code();
    if (first) run.losses = training.losses;
  });
  run.exit_code = exit_code;
  return run;
}

/// Returns the largest relative difference between a loss curve and the last losses of another.
inline double difference(const std::vector<double>& a, const std::vector<double>& whole)
{
  if (a.size() > whole.size()) return HUGE_VAL;
  const double* b = whole.data() + (whole.size() - a.size());
  double d = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
  {
    const double here = std::abs(a[i] - b[i]) / std::max(std::abs(b[i]), 1e-300);
    if (cubist::is_nan(here)) return HUGE_VAL;
    d = std::max(d, here);
  }
  return d;
}

}  // namespace digits
