// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Trains a transformer on a text, on any scheme and backend.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/dataset/token_batches.hpp>
#include <cubist/nn/merge_lora.hpp>
#include <cubist/nn/optimizers/muon.hpp>
#include <cubist/nn/transformer/adapter.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/pipelined_transformer.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/nn/transformer/weights.hpp>
#include <cubist/training/trainer.hpp>

#include "text.hpp"

namespace text
{

struct Settings
{
  std::string scheme = "summa25d";
  int replicas = 1;
  std::vector<int> mesh;
  std::string scalar = "float";
  std::string data = CUBIST_TEXT;
  std::size_t layers = 4;
  std::size_t width = 256;
  std::size_t heads = 4;
  std::size_t length = 128;
  std::size_t batch = 16;
  std::size_t micro_batches = 1;
  std::size_t recompute = 0;
  cubist::PipelineOptions pipeline = {};  // for a scheme in stages
  std::uint64_t steps = 1000;
  std::string optimizer = "adamw";
  double learning_rate = 2e-3;
  bool constant_rate = false;  // without warm-up or decay
  double clip = 1;
  double dropout = 0;
  std::string model;     // a folder with the weights to start from
  std::size_t lora = 0;  // the rank of LoRA's matrices; 0: all weights are trained
  std::uint64_t seed = 42;
  std::uint64_t report = 100;
  std::size_t test = 0;
  std::size_t sample = 400;
  std::string checkpoints;
  std::uint64_t every = 250;
  std::string save;
  std::string losses;
  std::string log;
  std::string trace;
  bool compare = false;
};

/// Writes one loss per line, with all its digits.
inline void write(const std::vector<double>& losses, const std::string& path)
{
  std::ofstream file{path};
  file.precision(17);
  for (const double loss : losses) file << loss << '\n';
  file.flush();
  cubist::require<cubist::DataError>(
      file.good(), "cannot write ", path,
      ", so the losses would be lost; pass --losses the path of a file that can be written");
}

/// What a run returns on rank 0. It is empty in processes without that rank.
struct Run
{
  std::vector<double> losses;  // the losses of every step since the start or the checkpoint
  int exit_code = 0;
};

/// @param verbose whether to report, save and sample
template <class Backend, class Scheme, class T>
Run train(const Split& data, const Settings& s, int ranks,
          const typename Scheme::Axes::Array& extents, bool verbose)
{
  const cubist::TokenBatches batches{data.training,
                                     {.sequences = s.batch, .length = s.length, .seed = s.seed}};
  Run run;
  std::atomic<int> exit_code = 0;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    const cubist::Mesh<Scheme, Backend> mesh{world, extents, cubist::IdleRanks::refused};
    using Model = cubist::Transformer<Scheme, Backend, T>;
    const cubist::TransformerConfig config{.vocabulary = vocabulary,
                                           .positions = s.length,
                                           .width = s.width,
                                           .layers = s.layers,
                                           .heads = s.heads};
    std::optional<cubist::LoraOptions> lora;
    if (s.lora > 0)
      lora = {.rank = s.lora, .alpha = 2 * static_cast<double>(s.lora), .dropout = s.dropout};
    Model model{mesh,
                config,
                {.dropout = s.dropout,
                 .attention_dropout = s.dropout,
                 .seed = s.seed,
                 .recompute = s.recompute,
                 .pipeline = s.pipeline},
                lora};
    const auto parameters = model.parameters();
    if (!s.model.empty()) cubist::load_weights(s.model, parameters, config);
    if (first && verbose)
    {
      std::size_t numbers = 0, trained = 0;
      for (const auto& p : parameters)
      {
        numbers += p.value.shape.size();
        trained += p.frozen ? 0 : p.value.shape.size();
      }
      std::printf("%s on %d ranks, %s, %zu parameters, %zu bytes to learn and %zu held out\n",
                  Scheme::name, world.size(), s.scalar.c_str(), numbers,
                  std::size_t{data.training.size()}, std::size_t{data.held_out.size()});
      if (s.lora > 0) std::printf("LoRA of rank %zu trains %zu parameters\n", s.lora, trained);
    }

    cubist::TrainerOptions options{.steps = s.steps,
                                   .micro_batches = s.micro_batches,
                                   .learning_rate =
                                       cubist::LearningRateOptions{.rate = s.learning_rate,
                                                                   .warm_up = s.steps / 20,
                                                                   .steps = s.steps,
                                                                   .decay = cubist::Decay::cosine,
                                                                   .last = s.learning_rate / 10},
                                   .clip = s.clip};
    if (s.constant_rate)
      options.learning_rate = cubist::LearningRateOptions{.rate = s.learning_rate};
    if (verbose)
    {
      options.checkpoints = s.checkpoints;
      options.save_every = s.every;
      options.report_every = s.report;
      options.samples = s.batch * s.length;
      options.log = s.log;
    }
    const auto train_by = [&](auto optimizer) {
      cubist::Trainer trainer{model, optimizer, options};
      return trainer.run(
          [&](const cubist::MicroBatch& b) {
            return model.compute_gradients(batches.batch(b.index), s.length, b.gradient_scale);
          },
          [&](std::uint64_t step) {
            const std::size_t last = s.test == 0 ? data.held_out.size() : s.test;
            return std::vector<cubist::NamedValue>{
                {"held-out bits a byte", bits_a_byte(model, data.held_out, s.batch, s.length,
                                                     step == s.steps ? last : 4 * s.batch)}};
          });
    };
    using Mesh = typename Model::Mesh;
    const cubist::AdamOptions adamw{
        .learning_rate = s.learning_rate, .weight_decay = 0.1, .decay_biases_and_norms = true};
    const auto training =
        s.optimizer == "muon"
            ? train_by(cubist::Sharded<cubist::Muon<T, Mesh>>{
                  parameters,
                  {.scale = cubist::MuonScale::match_rms_adamw, .adamw = adamw},
                  s.micro_batches})
            : train_by(cubist::Sharded<cubist::AdamW<T, Mesh>>{parameters, adamw, s.micro_batches});
    exit_code = training.exit_code();
    if (first) run.losses = training.losses;
    if (!verbose || training.stopped) return;

    if (!s.save.empty() && s.lora > 0)
    {
      save_adapter(s.save + "/adapter", model);
      merge_lora(model);
    }
    if (!s.save.empty()) save_weights(s.save, model.parameters(), config);
    // A model takes s.length bytes, prompt included, so a longer sample goes on from its last
    // s.length / 2 bytes.
    Tokens sample = tokens_of("In the beginning ");
    while (sample.size() < s.sample)
    {
      const std::size_t known = std::min(sample.size(), s.length / 2);
      const Tokens prompt(sample.end() - static_cast<std::ptrdiff_t>(known), sample.end());
      const auto more = generate(model, prompt, 1,
                                 {.tokens = std::min(s.length - known, s.sample - sample.size()),
                                  .temperature = 0.8,
                                  .seed = s.seed + sample.size()});
      sample.insert(sample.end(), more.begin(), more.end());
    }
    if (first && s.sample > 0) std::printf("\n%s\n\n", bytes_of(sample).c_str());
  });
  run.exit_code = exit_code;
  return run;
}

}  // namespace text
