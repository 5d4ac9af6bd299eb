// SPDX-License-Identifier: BSD-3-Clause
// Trains an MLP on handwritten digits, on the scheme and mesh of your choice, and again on one
// rank, unless --no-compare is given: the two loss curves must agree. Ranks are MPI processes under
// mpiexec or srun, otherwise threads. With --checkpoints a run that was stopped or killed continues
// from its newest checkpoint, on any scheme, mesh and number of ranks. SIGTERM and SIGUSR1 stop it
// after a step, with status 75.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/scheme/data_parallel.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"
#include "training.hpp"

namespace
{

using digits::Run;
using digits::Settings;

/// Writes one loss per line, with all its digits.
void write(const std::vector<double>& losses, const std::string& path)
{
  std::ofstream file{path};
  file.precision(17);
  for (const double loss : losses) file << loss << '\n';
  file.flush();
  cubist::require<cubist::DataError>(
      file.good(), "cannot write ", path,
      ", so the losses would be lost; pass --losses the path of a file that can be written");
}

/// Whether the losses are those of one rank.
template <class Scheme, class T>
bool equals_one_rank(const Run& run, const cubist::RowBatches& data, const Settings& s)
{
  examples::stop_tracing();
  const Run alone =
      digits::train<examples::OneRank, Scheme, T>(data, s, 1, Scheme::extents({}, 1), false);
  const double d = digits::difference(run.losses, alone.losses);
  const double bound = s.scalar == "double" ? 1e-9 : 1e-3;
  std::printf("largest relative difference of %zu losses from one rank's: %.1e (bound %.0e)\n",
              run.losses.size(), d, bound);
  return d <= bound;
}

template <class Backend, class Scheme, class T>
int train(const Settings& s, const typename Scheme::Axes::Array& extents)
{
  const auto data = digits::read(s);
  const Run run =
      digits::train<Backend, Scheme, T>(data, s, Scheme::Axes::ranks(extents), extents, true);
  if (run.exit_code != 0 || run.losses.empty()) return run.exit_code;
  if (!s.losses.empty()) write(run.losses, s.losses);
  const bool equal = !s.compare || equals_one_rank<Scheme, T>(run, data, s);
  std::printf("held-out accuracy %.4f\n", run.accuracy);
  return equal ? 0 : 1;
}

/// Trains on meshes with the extents in `s.mesh`.
template <class Backend, class Scheme>
int train_on(const Settings& s)
{
  const std::vector<int> twos(Scheme::Axes::count, 2);
  using Replicas = cubist::DataParallel<Scheme>;
  const auto extents = Replicas::extents_of(
      s.replicas, cubist::extents_from_list<Scheme>(s.mesh.empty() ? twos : s.mesh));
  return s.scalar == "double" ? train<Backend, Replicas, double>(s, extents)
                              : train<Backend, Replicas, float>(s, extents);
}

using Known = cubist::Schemes<cubist::Summa2D, cubist::Summa25D, cubist::Cube3D, cubist::Grid2D,
                              cubist::Grid3D, cubist::Megatron1D>;

}  // namespace

int main(int argc, char** argv)
try
{
  Settings s;
  CLI::App app{"An MLP learns handwritten digits, cut over many ranks"};
  app.option_defaults()->always_capture_default();
  app.add_option("--scheme", s.scheme, "the scheme")
      ->check(CLI::IsMember(cubist::scheme_name_list<Known>(), CLI::ignore_case));
  app.add_option("--mesh", s.mesh, "the extents of the scheme's mesh; by default 2 along each axis")
      ->delimiter(',');
  app.add_option("--replicas", s.replicas,
                 "the number of such meshes, each with its part of every batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--scalar", s.scalar, "the type of the elements")
      ->check(CLI::IsMember({"float", "double"}));
  app.add_option("--checkpoints", s.checkpoints,
                 "a folder for checkpoints; a run continues from the newest one there");
  app.add_option("--every", s.every, "the number of steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep", s.keep, "the number of checkpoints that are kept; 0: all");
  app.add_flag("--background", s.background, "write checkpoints while the run goes on");
  app.add_option("--epochs", s.epochs, "the number of passes over the training rows")
      ->check(CLI::PositiveNumber);
  app.add_option("--steps", s.steps, "stop after this many steps; by default after the epochs");
  app.add_option("--hidden", s.hidden, "the sizes of the hidden layers")->delimiter(',');
  app.add_option("--batch", s.batch, "the number of rows in a batch")->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", s.learning_rate, "the learning rate");
  app.add_option("--dropout", s.dropout, "the probability of dropout");
  app.add_option("--seed", s.seed, "the seed of weights and batches");
  app.add_option("--data", s.data, "digits.csv");
  app.add_option("--losses", s.losses, "write the loss of every step to this file");
  app.add_option("--log", s.log,
                 "write a line of JSON for every step to this file, for bench/scripts/plot");
  app.add_option("--trace", s.trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  app.add_flag("--compare,!--no-compare", s.compare,
               "train on one rank, too, and compare the losses");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(s.trace, [&]<class Backend>() {
    return cubist::with_scheme<Known>(s.scheme,
                                      [&]<class Scheme>() { return train_on<Backend, Scheme>(s); });
  });
}
catch (const std::exception& e)
{
  std::cerr << "train_digits: " << e.what() << '\n';
  return 1;
}
