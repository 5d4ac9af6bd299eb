// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Training of an MLP on the digits, on any scheme and backend, and comparison of loss curves.

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/io/checkpoints.hpp>

#include "digits.hpp"

namespace digits
{

struct Settings
{
  std::string scheme = "summa25d";
  std::vector<int> mesh;
  std::string scalar = "double";
  std::string data = CUBIST_DIGITS_CSV;
  std::string losses;
  std::string trace;
  std::vector<std::size_t> hidden = {128};
  std::string checkpoints;
  std::uint64_t every = 50;
  std::size_t keep = 3;
  std::uint64_t epochs = 20;
  std::uint64_t steps = 0;
  std::size_t batch = 64;
  double learning_rate = 2e-3;
  double dropout = 0;
  std::uint64_t seed = 42;
};

/// The results on rank 0; empty in processes without it.
struct Run
{
  std::vector<double> losses;  // of every step since the start, or the checkpoint
  double accuracy = 0;         // on the held-out part
};

/// The images with the numbers in `order`, or the first ones, cut by the scheme's input layout.
template <class T, class Scheme, class Backend>
cubist::Activations<Scheme, Backend, T> inputs(const cubist::Mesh<Scheme, Backend>& mesh,
                                               const Images& images, const std::size_t* order,
                                               std::size_t count)
{
  using AxisMesh = cubist::AxisMesh<typename Scheme::Axes, Backend>;
  cubist::DistMatrix<T, typename Scheme::Input, AxisMesh> x{mesh, {count, pixel_count}};
  const auto block = x.block();
  std::vector<T> mine;  // generate() would read the images in the engine's memory
  for (std::size_t i = 0; i < block.valid().rows; ++i)
    for (std::size_t j = 0; j < block.valid().cols; ++j)
    {
      const std::size_t row = block.rows.offset + i;
      const auto& image = images[order == nullptr ? row : order[row]];
      mine.push_back(static_cast<T>(image.pixels[block.cols.offset + j]));
    }
  mesh.engine().upload(cubist::MatrixView<const T>{mine.data(), block.valid()}, x.valid());
  return x;
}

inline std::vector<int> labels(const Images& images, const std::size_t* order, std::size_t count)
{
  std::vector<int> l(count);
  for (std::size_t i = 0; i < count; ++i) l[i] = images[order == nullptr ? i : order[i]].label;
  return l;
}

template <class Backend, class Scheme, class T>
Run train(const Split& data, const Settings& s, int ranks,
          const typename Scheme::Axes::Array& extents, bool verbose)
{
  Run run;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    if (first && verbose)
      std::printf("%s on %d ranks, %s, %zu digits to learn and %zu held out\n", Scheme::name,
                  world.size(), s.scalar.c_str(), data.training.size(), data.held_out.size());
    cubist::Mesh<Scheme, Backend> mesh{world, extents, cubist::IdleRanks::refused};
    std::vector<std::size_t> sizes{pixel_count};
    sizes.insert(sizes.end(), s.hidden.begin(), s.hidden.end());
    sizes.push_back(class_count);
    cubist::MLP<Scheme, Backend, T> mlp{
        mesh, sizes, {.activation = cubist::gelu, .dropout = s.dropout, .seed = s.seed}};
    cubist::Adam optimizer{mlp.parameters(), {.learning_rate = s.learning_rate}};

    const auto& held_out = data.held_out;
    const auto test_x = inputs<T>(mesh, held_out, nullptr, held_out.size());
    const auto test_labels = labels(held_out, nullptr, held_out.size());

    cubist::Checkpoints checkpoints{mesh, s.checkpoints, {.keep = s.keep}};
    const auto state = state_of(mlp, optimizer);
    const bool saves = verbose && !s.checkpoints.empty();
    std::uint64_t step = saves ? checkpoints.load(state).value_or(0) : 0;
    if (first && step > 0) std::printf("goes on from step %" PRIu64 "\n", step);
    std::fflush(stdout);

    const std::size_t all = data.training.size();
    const std::uint64_t per_epoch = cubist::ceil_div(all, s.batch);
    const std::uint64_t last = s.steps > 0 ? s.steps : s.epochs * per_epoch;
    double sum = 0;
    std::size_t samples = 0;
    auto start = std::chrono::steady_clock::now();
    std::vector<std::size_t> order;
    while (step < last)
    {
      const std::uint64_t epoch = step / per_epoch + 1;
      const std::size_t begin = step % per_epoch * s.batch;
      if (begin == 0 || order.empty()) order = shuffled(all, s.seed, epoch);
      const std::size_t count = std::min(s.batch, all - begin);
      const auto x = inputs<T>(mesh, data.training, &order[begin], count);
      const auto& y = mlp.forward(x);
      auto dy = zeros_like(y);
      const double loss = softmax_cross_entropy(y, labels(data.training, &order[begin], count), dy);
      mlp.backward(dy);
      optimizer.step(mlp.parameters());
      ++step;
      if (saves && (step % s.every == 0 || step == last)) checkpoints.save(step, state);

      if (first) run.losses.push_back(loss);
      sum += loss * static_cast<double>(count);
      samples += count;
      if (step % per_epoch != 0 && step != last) continue;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      const auto score = mlp.evaluate(test_x, test_labels);
      if (first) run.accuracy = score.accuracy;
      if (first && verbose)
        std::printf("epoch %2" PRIu64
                    "  loss %.6f  held-out loss %.6f  accuracy %.4f  %8.0f samples/s\n",
                    epoch, sum / static_cast<double>(samples), score.loss, score.accuracy,
                    static_cast<double>(samples) / time.count());
      std::fflush(stdout);
      sum = 0;
      samples = 0;
      start = std::chrono::steady_clock::now();
    }
  });
  return run;
}

/// The largest relative difference of a loss curve from the last losses of another.
inline double difference(const std::vector<double>& a, const std::vector<double>& whole)
{
  if (a.size() > whole.size()) return HUGE_VAL;
  const double* b = whole.data() + (whole.size() - a.size());
  double d = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
  {
    const double here = std::abs(a[i] - b[i]) / std::max(std::abs(b[i]), 1e-300);
    if (std::isnan(here)) return HUGE_VAL;
    d = std::max(d, here);
  }
  return d;
}

}  // namespace digits
