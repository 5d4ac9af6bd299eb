// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Training of a transformer on a text, on any scheme and backend.

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <string>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/io/checkpoints.hpp>
#include <cubist/nn/transformer/generate.hpp>
#include <cubist/nn/transformer/transformer.hpp>
#include <cubist/nn/transformer/weights.hpp>

#include "text.hpp"

namespace text
{

struct Settings
{
  std::string scheme = "summa25d";
  std::vector<int> mesh;
  std::string scalar = "float";
  std::string data = CUBIST_TEXT;
  std::size_t layers = 4;
  std::size_t width = 256;
  std::size_t heads = 4;
  std::size_t length = 128;
  std::size_t batch = 16;
  std::uint64_t steps = 1000;
  double learning_rate = 2e-3;
  double dropout = 0;
  std::uint64_t seed = 42;
  std::uint64_t report = 100;
  std::size_t test = 0;
  std::size_t sample = 400;
  std::string checkpoints;
  std::uint64_t every = 250;
  std::string save;
  std::string losses;
  std::string trace;
  bool compare = false;
};

/// The results on rank 0; empty in processes without it.
struct Run
{
  std::vector<double> losses;  // of every step since the start, or the checkpoint
  double held_out = 0;         // bits a byte
};

/// Grows from 0 in a twentieth of the steps, and falls by a cosine to a tenth.
inline double learning_rate(const Settings& s, std::uint64_t step)
{
  const double at = static_cast<double>(step) + 1, all = static_cast<double>(s.steps);
  const double growing = std::max(1.0, all / 20);
  if (at < growing) return s.learning_rate * at / growing;
  const double fall = (at - growing) / std::max(1.0, all - growing);
  return s.learning_rate * (0.55 + 0.45 * std::cos(std::numbers::pi * fall));
}

template <class Backend, class Scheme, class T>
Run train(const Split& data, const Settings& s, int ranks,
          const typename Scheme::Axes::Array& extents, bool verbose)
{
  Run run;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    const cubist::Mesh<Scheme, Backend> mesh{world, extents, cubist::IdleRanks::refused};
    const cubist::TransformerConfig config{.vocabulary = vocabulary,
                                           .positions = s.length,
                                           .width = s.width,
                                           .layers = s.layers,
                                           .heads = s.heads};
    cubist::Transformer<Scheme, Backend, T> model{
        mesh, config, {.dropout = s.dropout, .attention_dropout = s.dropout, .seed = s.seed}};
    const auto parameters = model.parameters();
    cubist::AdamW optimizer{parameters, {.weight_decay = 0.1}};
    if (first && verbose)
    {
      std::size_t numbers = 0;
      for (const auto& p : parameters) numbers += p.value.shape.size();
      std::printf("%s on %d ranks, %s, %zu parameters, %zu bytes to learn and %zu held out\n",
                  Scheme::name, world.size(), s.scalar.c_str(), numbers, data.training.size(),
                  data.held_out.size());
    }

    cubist::Checkpoints checkpoints{mesh, s.checkpoints, {.keep = 2}};
    const auto state = state_of(model, optimizer);
    const bool saves = verbose && !s.checkpoints.empty();
    std::uint64_t step = saves ? checkpoints.load(state).value_or(0) : 0;
    if (first && step > 0) std::printf("goes on from step %" PRIu64 "\n", step);
    std::fflush(stdout);

    double sum = 0;
    std::uint64_t steps = 0;
    auto start = std::chrono::steady_clock::now();
    while (step < s.steps)
    {
      optimizer.options().learning_rate = learning_rate(s, step);
      const auto ids = batch(data.training, s.batch, s.length, s.seed, step);
      const double loss = model.compute_gradients(ids, s.length);
      optimizer.step(parameters);
      ++step;
      if (first) run.losses.push_back(loss);
      if (saves && (step % s.every == 0 || step == s.steps)) checkpoints.save(step, state);
      sum += loss / std::numbers::ln2;
      ++steps;
      if (!verbose || (step % s.report != 0 && step != s.steps)) continue;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      const std::size_t last = s.test == 0 ? data.held_out.size() : s.test;
      const double held_out = bits_a_byte(model, data.held_out, s.batch, s.length,
                                          step == s.steps ? last : 4 * s.batch);
      if (first)
      {
        run.held_out = held_out;
        std::printf("step %5" PRIu64
                    "  loss %.4f  held-out loss %.4f bits a byte  %8.0f tokens/s\n",
                    step, sum / static_cast<double>(steps), held_out,
                    static_cast<double>(steps * s.batch * s.length) / time.count());
        std::fflush(stdout);
      }
      sum = 0;
      steps = 0;
      start = std::chrono::steady_clock::now();
    }
    if (!verbose) return;

    if (!s.save.empty()) save_weights(s.save, parameters, config);
    // A sample of as many bytes as the model has positions, and more from the last half of them.
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
  return run;
}

}  // namespace text
