// SPDX-License-Identifier: BSD-3-Clause
// Trains a small GPT on the bytes of a text, on the scheme and mesh of your choice, and continues a
// few words of it. Ranks are MPI processes under mpiexec or srun, otherwise threads. With
// --checkpoints a run that was stopped continues from its newest checkpoint, on any scheme, mesh
// and number of ranks. With --save the model is saved in Hugging Face's format, for
// examples/generate. With --model and --lora such a model is tuned. SIGTERM and SIGUSR1 stop the
// run after a step, with a checkpoint and status 75. With --compare it trains once more on one
// rank: the two loss curves must agree.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/catalogue.hpp>
#include <cubist/scheme/data_parallel.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"
#include "text_training.hpp"

namespace
{

using text::Run;
using text::Settings;

/// Whether the losses are those of one rank.
template <class Scheme, class T>
bool equals_one_rank(const Run& run, const text::Split& data, const Settings& s)
{
  examples::stop_tracing();
  const Run alone =
      text::train<examples::OneRank, Scheme, T>(data, s, 1, Scheme::extents({}, 1), false);
  double largest = run.losses.size() == alone.losses.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(run.losses.size(), alone.losses.size()); ++i)
    largest = std::max(largest, std::abs(run.losses[i] - alone.losses[i]) / alone.losses[i]);
  const double bound = s.scalar == "double" ? 1e-9 : 1e-3;
  std::printf("largest relative difference of %zu losses from one rank's: %.1e (bound %.0e)\n",
              run.losses.size(), largest, bound);
  return largest <= bound;
}

template <class Backend, class Scheme, class T>
int train(const Settings& s, const typename Scheme::Axes::Array& extents)
{
  const auto data = text::read(s.data);
  const Run run =
      text::train<Backend, Scheme, T>(data, s, Scheme::Axes::ranks(extents), extents, true);
  if (run.exit_code != 0 || run.losses.empty()) return run.exit_code;
  if (!s.losses.empty()) text::write(run.losses, s.losses);
  return s.compare && !equals_one_rank<Scheme, T>(run, data, s) ? 1 : 0;
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

// Summa2D is Summa25D of depth 1, and Grid2D and Cube3D are meshes of Grid3D.
using Known = cubist::Schemes<cubist::Summa25D, cubist::Grid3D, cubist::Megatron1D>;

}  // namespace

int main(int argc, char** argv)
try
{
  Settings s;
  CLI::App app{"A transformer learns to write, cut over many ranks"};
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
  app.add_option("--data", s.data, "a file with the text to learn");
  app.add_option("--layers", s.layers, "the number of blocks")->check(CLI::PositiveNumber);
  app.add_option("--width", s.width, "the number of features of a token")
      ->check(CLI::PositiveNumber);
  app.add_option("--heads", s.heads, "the number of heads of attention")
      ->check(CLI::PositiveNumber);
  app.add_option("--length", s.length, "the number of bytes in a window")
      ->check(CLI::Range(2, 1 << 20));
  app.add_option("--batch", s.batch, "the number of windows in a micro-batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--micro-batches", s.micro_batches, "the number of micro-batches in a step")
      ->check(CLI::PositiveNumber);
  app.add_option(
      "--recompute", s.recompute,
      "the number of blocks in a segment that backward recomputes; 0 keeps all activations");
  app.add_option("--steps", s.steps, "the number of steps")->check(CLI::PositiveNumber);
  app.add_option("--optimizer", s.optimizer,
                 "Muon updates the matrices of layers, and AdamW the rest")
      ->check(CLI::IsMember({"adamw", "muon"}));
  app.add_option("--learning-rate", s.learning_rate, "the learning rate after the warm-up");
  app.add_option("--clip", s.clip, "the norm to which gradients are clipped; 0: no clipping");
  app.add_option("--dropout", s.dropout, "the probability of dropout");
  app.add_option("--model", s.model,
                 "start from weights of the same sizes, which --save has written to this folder");
  app.add_option("--lora", s.lora,
                 "train only LoRA matrices of this rank, beside all linear layers; 0: all weights. "
                 "--save writes the adapter to the folder adapter, and merges it into the model");
  app.add_option("--seed", s.seed, "the seed of weights and batches");
  app.add_option("--report", s.report, "the number of steps from one printed line to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--test", s.test,
                 "the number of windows of the held-out text that are tested at the end; 0: all");
  app.add_option("--sample", s.sample, "the number of bytes to generate at the end");
  app.add_option("--checkpoints", s.checkpoints,
                 "a folder for checkpoints; a run continues from the newest one there");
  app.add_option("--every", s.every, "the number of steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--save", s.save, "save the model in this folder, in Hugging Face's format");
  app.add_option("--losses", s.losses, "write the loss of every step to this file");
  app.add_option("--log", s.log,
                 "write a line of JSON for every step to this file, for bench/scripts/plot");
  app.add_option("--trace", s.trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  app.add_flag("--compare", s.compare, "train on one rank, too, and compare the losses");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(s.trace, [&]<class Backend>() {
    return cubist::with_scheme<Known>(s.scheme,
                                      [&]<class Scheme>() { return train_on<Backend, Scheme>(s); });
  });
}
catch (const std::exception& e)
{
  std::cerr << "train_text: " << e.what() << '\n';
  return 1;
}
