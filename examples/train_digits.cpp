// SPDX-License-Identifier: BSD-3-Clause
// An MLP learns handwritten digits on the scheme and mesh of your choice, and once more on one
// rank: the two loss curves must agree. Under mpiexec or srun its ranks are MPI's, else threads.
// With --checkpoints a run that was stopped, or killed, goes on where it was: on any scheme, mesh
// and number of ranks.

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <cubist/plan/catalogue.hpp>
#include <cubist/plan/meshes.hpp>

#include "backend.hpp"
#include "digits.hpp"

namespace
{

struct Settings
{
  std::string scheme = "summa25d";
  std::vector<int> mesh;
  std::string scalar = "double";
  std::string data = CUBIST_DIGITS_CSV;
  std::string losses;
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

/// What rank 0 has seen; empty in processes without it.
struct Run
{
  std::vector<double> losses;  // of every step since it began, or went on
  double accuracy = 0;         // on the held-out part
};

/// The images that `order` names from `begin` on, cut by the scheme's input layout.
template <class T, class Scheme, class Backend>
cubist::Activations<Scheme, Backend, T> inputs(const cubist::Mesh<Scheme, Backend>& mesh,
                                               const digits::Images& images,
                                               const std::size_t* order, std::size_t count)
{
  using AxisMesh = cubist::AxisMesh<typename Scheme::Axes, Backend>;
  cubist::DistMatrix<T, typename Scheme::Input, AxisMesh> x{mesh, {count, digits::pixel_count}};
  x.generate([&](std::size_t i, std::size_t j) {
    return static_cast<T>(images[order == nullptr ? i : order[i]].pixels[j]);
  });
  return x;
}

std::vector<int> labels(const digits::Images& images, const std::size_t* order, std::size_t count)
{
  std::vector<int> l(count);
  for (std::size_t i = 0; i < count; ++i) l[i] = images[order == nullptr ? i : order[i]].label;
  return l;
}

template <class Backend, class Scheme, class T>
Run train(const digits::Split& data, const Settings& s, int ranks,
          const typename Scheme::Axes::Array& extents, bool talk)
{
  Run run;
  cubist::launch<Backend>({.ranks = ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    if (first && talk)
      std::printf("%s on %d ranks, %s, %zu digits to learn and %zu held out\n", Scheme::name,
                  world.size(), s.scalar.c_str(), data.training.size(), data.held_out.size());
    cubist::Mesh<Scheme, Backend> mesh{world, extents, cubist::IdleRanks::refused};
    std::vector<std::size_t> sizes{digits::pixel_count};
    sizes.insert(sizes.end(), s.hidden.begin(), s.hidden.end());
    sizes.push_back(digits::class_count);
    cubist::MLP<Scheme, Backend, T> mlp{
        mesh, sizes, {.activation = cubist::gelu, .dropout = s.dropout, .seed = s.seed}};
    cubist::Adam optimizer{mlp.parameters(), {.learning_rate = s.learning_rate}};

    const auto& held_out = data.held_out;
    const auto test_x = inputs<T>(mesh, held_out, nullptr, held_out.size());
    const auto test_labels = labels(held_out, nullptr, held_out.size());

    cubist::Checkpoints checkpoints{mesh, s.checkpoints, {.keep = s.keep}};
    const auto state = state_of(mlp, optimizer);
    const bool saves = talk && !s.checkpoints.empty();
    std::uint64_t step = saves ? checkpoints.load(state).value_or(0) : 0;
    if (first && step > 0) std::printf("goes on from step %" PRIu64 "\n", step);
    std::fflush(stdout);

    const std::size_t all = data.training.size();
    const std::uint64_t per_epoch = cubist::ceil_div(all, s.batch);
    const std::uint64_t last = s.steps > 0 ? s.steps : s.epochs * per_epoch;
    double sum = 0;
    std::size_t seen = 0;
    auto start = std::chrono::steady_clock::now();
    std::vector<std::size_t> order;
    while (step < last)
    {
      const std::uint64_t epoch = step / per_epoch + 1;
      const std::size_t begin = step % per_epoch * s.batch;
      if (begin == 0 || order.empty()) order = digits::shuffled(all, s.seed, epoch);
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
      seen += count;
      if (step % per_epoch != 0 && step != last) continue;
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      const auto score = mlp.evaluate(test_x, test_labels);
      if (first) run.accuracy = score.accuracy;
      if (first && talk)
        std::printf("epoch %2" PRIu64
                    "  loss %.6f  held-out loss %.6f  accuracy %.4f  %8.0f samples/s\n",
                    epoch, sum / static_cast<double>(seen), score.loss, score.accuracy,
                    static_cast<double>(seen) / time.count());
      std::fflush(stdout);
      sum = 0;
      seen = 0;
      start = std::chrono::steady_clock::now();
    }
  });
  return run;
}

/// The largest relative difference of a loss curve from the end of another.
double difference(const std::vector<double>& a, const std::vector<double>& whole)
{
  if (a.size() > whole.size()) return HUGE_VAL;
  const double* b = whole.data() + (whole.size() - a.size());
  double d = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    d = std::max(d, std::abs(a[i] - b[i]) / std::max(std::abs(b[i]), 1e-300));
  return d;
}

/// One loss a line, with all its digits.
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

template <class Backend, class Scheme, class T>
int compare(const Settings& s, const typename Scheme::Axes::Array& extents)
{
  const int ranks = Scheme::Axes::ranks(extents);
  const auto data = digits::split(digits::read(s.data), s.seed);
  const Run run = train<Backend, Scheme, T>(data, s, ranks, extents, true);
  if (run.losses.empty()) return 0;
  if (!s.losses.empty()) write(run.losses, s.losses);
  const Run alone = train<cubist::Threads, Scheme, T>(data, s, 1, Scheme::extents({}, 1), false);

  const double d = difference(run.losses, alone.losses);
  const double bound = s.scalar == "double" ? 1e-8 : 1e-3;
  std::printf("largest relative difference of %zu losses from one rank's: %.1e (bound %.0e)\n",
              run.losses.size(), d, bound);
  std::printf("held-out accuracy %.4f\n", run.accuracy);
  return d <= bound ? 0 : 1;
}

/// Makes `s.mesh` the extents of the scheme, and trains.
template <class Backend, class Scheme>
int train_on(const Settings& s)
{
  typename Scheme::Axes::Array extents{};
  cubist::require<cubist::ArgumentError>(
      s.mesh.empty() || s.mesh.size() == extents.size(), "got a mesh of ", s.mesh.size(),
      " extents for ", Scheme::name, ", which has ", extents.size(),
      " axes, so it is unclear which is which; give one extent for each, or leave --mesh out");
  if (s.mesh.empty())
    extents.fill(2);
  else
    std::copy(s.mesh.begin(), s.mesh.end(), extents.begin());
  cubist::require_fit<Scheme>(extents);
  return s.scalar == "double" ? compare<Backend, Scheme, double>(s, extents)
                              : compare<Backend, Scheme, float>(s, extents);
}

template <class Backend, class... Scheme>
int train_on_one_of(const Settings& s, cubist::Schemes<Scheme...>)
{
  int code = 0;
  const bool known =
      ((cubist::same_name(s.scheme, Scheme::name) && (code = train_on<Backend, Scheme>(s), true)) ||
       ...);
  return known ? code : 1;
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
  app.add_option("--scheme", s.scheme)
      ->check(CLI::IsMember({"summa2d", "summa25d", "cube3d", "grid2d", "grid3d", "megatron1d"}));
  app.add_option("--mesh", s.mesh, "the extents of its axes; else 2 along each")->delimiter(',');
  app.add_option("--scalar", s.scalar)->check(CLI::IsMember({"float", "double"}));
  app.add_option("--checkpoints", s.checkpoints, "a folder to save to, and to go on from");
  app.add_option("--every", s.every, "steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber);
  app.add_option("--keep", s.keep, "checkpoints that stay; 0 is all");
  app.add_option("--epochs", s.epochs)->check(CLI::PositiveNumber);
  app.add_option("--steps", s.steps, "stops after so many; else after the epochs");
  app.add_option("--hidden", s.hidden, "sizes of the hidden layers")->delimiter(',');
  app.add_option("--batch", s.batch)->check(CLI::PositiveNumber);
  app.add_option("--learning-rate", s.learning_rate);
  app.add_option("--dropout", s.dropout);
  app.add_option("--seed", s.seed);
  app.add_option("--data", s.data, "digits.csv");
  app.add_option("--losses", s.losses, "a file to write the loss of every step to");
  CLI11_PARSE(app, argc, argv);
  return examples::on_backend(
      [&]<class Backend>() { return train_on_one_of<Backend>(s, Known{}); });
}
catch (const std::exception& e)
{
  std::cerr << "train_digits: " << e.what() << '\n';
  return 1;
}
