// SPDX-License-Identifier: BSD-3-Clause
// Trains a small GPT on the bytes of a text, with data, pipeline and tensor parallelism: pipelines
// run side by side, and each of their stages holds some of the blocks, on a mesh of Summa25D. Ranks
// are MPI processes under mpiexec or srun, otherwise threads. With --checkpoints a run that was
// stopped or killed continues from its newest checkpoint, with any other cut into data, stages and
// tensor. With --compare it trains once more on one rank: the two loss curves must agree.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <vector>

#include <CLI/CLI.hpp>

#include <cubist/plan/meshes.hpp>
#include <cubist/scheme/pipeline.hpp>
#include <cubist/scheme/summa25d.hpp>

#include "../tools/strict_options.hpp"
#include "backend.hpp"
#include "text_training.hpp"

namespace
{

using Tensor = cubist::Summa25D;
using Scheme = cubist::DataParallel<cubist::Pipeline<Tensor>>;

/// Trains, and returns the exit code.
template <class Backend, class T>
int train(const text::Settings& s, int stages)
{
  const auto data = text::read(s.data);
  const auto mesh = cubist::extents_from_list<Tensor>(s.mesh);
  const Scheme::Axes::Array extents{s.replicas, stages, mesh[0], mesh[1], mesh[2]};
  const text::Run run =
      text::train<Backend, Scheme, T>(data, s, Scheme::Axes::ranks(extents), extents, true);
  if (run.exit_code != 0 || run.losses.empty()) return run.exit_code;
  if (!s.losses.empty()) text::write(run.losses, s.losses);
  if (!s.compare) return 0;
  examples::stop_tracing();
  const text::Run alone =
      text::train<examples::OneRank, Tensor, T>(data, s, 1, Tensor::extents({}, 1), false);
  double largest = run.losses.size() == alone.losses.size() ? 0 : HUGE_VAL;
  for (std::size_t i = 0; i < std::min(run.losses.size(), alone.losses.size()); ++i)
    largest = std::max(largest, std::abs(run.losses[i] - alone.losses[i]) / alone.losses[i]);
  const double bound = s.scalar == "double" ? 1e-9 : 1e-3;
  std::printf("largest relative difference of %zu losses from one rank's: %.1e (bound %.0e)\n",
              run.losses.size(), largest, bound);
  return largest <= bound ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv)
try
{
  text::Settings s;
  s.mesh = {1, 1, 1};
  s.sample = 0;
  s.test = 8;
  int stages = 2;
  CLI::App app{"A transformer in stages learns to write"};
  app.option_defaults()->always_capture_default();
  app.add_option("--replicas", s.replicas,
                 "the number of pipelines, each with its part of every batch")
      ->check(CLI::PositiveNumber);
  app.add_option("--stages", stages, "the number of stages of a pipeline")
      ->check(CLI::PositiveNumber);
  app.add_option("--mesh", s.mesh, "the depth, rows and columns of a stage's mesh")->delimiter(',');
  app.add_option("--micro-batches", s.pipeline.micro_batches,
                 "the number of micro-batches of a batch; 0: as many as stages");
  app.add_option("--pieces", s.pipeline.pieces, "the number of pieces of blocks on each stage")
      ->check(CLI::PositiveNumber);
  app.add_option("--blocks", s.pipeline.layers,
                 "the number of blocks in each piece; by default pieces of equal cost")
      ->delimiter(',');
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
  app.add_option("--batch", s.batch, "the number of windows in a step")->check(CLI::PositiveNumber);
  app.add_option(
      "--recompute", s.recompute,
      "the number of blocks in a segment that backward recomputes; 0 keeps all activations");
  app.add_option("--steps", s.steps, "the number of steps")->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", s.learning_rate, "the learning rate after the warm-up");
  app.add_flag("--constant-rate", s.constant_rate,
               "keep the learning rate constant, without warm-up or decay");
  app.add_option("--seed", s.seed, "the seed of weights and batches");
  app.add_option("--report", s.report, "the number of steps from one printed line to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--sample", s.sample, "the number of bytes to generate at the end");
  app.add_option("--checkpoints", s.checkpoints,
                 "a folder for checkpoints; a run continues from the newest one there");
  app.add_option("--every", s.every, "the number of steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--losses", s.losses, "write the loss of every step to this file");
  app.add_option("--trace", s.trace,
                 "write a trace of the first ranks to this file, for ui.perfetto.dev");
  app.add_flag("--compare", s.compare, "train on one rank, too, and compare the losses");
  cubist::parse_strictly(app, argc, argv);
  CLI11_PARSE(app, argc, argv);
  return examples::on_traced_backend(s.trace, [&]<class Backend>() {
    return s.scalar == "double" ? train<Backend, double>(s, stages)
                                : train<Backend, float>(s, stages);
  });
}
catch (const std::exception& e)
{
  std::cerr << "train_stages: " << e.what() << '\n';
  return 1;
}
