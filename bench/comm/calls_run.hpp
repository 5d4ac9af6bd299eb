// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind calls.hpp, for any backend.

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <sys/resource.h>

#include <cubist/backend/threads.hpp>
#include <cubist/nn/losses/loss.hpp>
#include <cubist/nn/networks/mlp.hpp>
#include <cubist/nn/optimizers/optimizer.hpp>
#include <cubist/scheme/mesh.hpp>
#include <cubist/scheme/summa2d.hpp>

#include "comm/calls.hpp"
#include "meter/all_cores.hpp"
#include "products/product.hpp"

namespace bench
{

/// What this process has done so far.
struct Usage
{
  static Usage now()
  {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    const auto seconds = [](const timeval& t) {
      return double(t.tv_sec) + 1e-6 * double(t.tv_usec);
    };
    return {double(u.ru_nvcsw), double(u.ru_nivcsw), seconds(u.ru_utime) + seconds(u.ru_stime)};
  }
  [[nodiscard]] std::array<double, 3> since(const Usage& before) const
  {
    return {sleeps - before.sleeps, interruptions - before.interruptions,
            core_seconds - before.core_seconds};
  }

  double sleeps = 0;
  double interruptions = 0;
  double core_seconds = 0;
};

/// Measures calls on the ranks of one launch, which share processes or have one each.
template <class World>
class CallMeter
{
 public:
  CallMeter(World& world, const CallsTask& task, bool is_alone)
      : world_{world},
        task_{task},
        is_alone_{is_alone}
  {
  }

  /// Adds a row on rank 0. The peer takes Times{} if there is none.
  template <class F, class Peer>
  void measure(const std::string& name, int calls, F f, Peer peer)
  {
    const auto [times, usage] = time(calls, f);
    CallRow row{name, times, peer(), usage[0] / calls, usage[1] / calls, usage[2] / calls};
    if (is_first()) rows.push_back(row);
  }
  /// The times of one of so many calls, and what the last repeat used.
  template <class F>
  [[nodiscard]] std::pair<Times, std::array<double, 3>> time(int calls, F f)
  {
    std::vector<double> times;
    std::array<double, 3> usage{};
    for (int i = -task_.warm_up; i < task_.repeats; ++i)
    {
      world_.barrier();
      const auto before = Usage::now();
      const double all = seconds([&] {
        for (int c = 0; c < calls; ++c) f();
        world_.barrier();
      });
      if (i >= 0) times.push_back(all / calls);
      usage = Usage::now().since(before);
    }
    if (!is_alone_) world_.all_reduce(std::span<double>{usage});
    return {Times{times}, usage};
  }

  [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
  void barrier() { world_.barrier(); }

  std::vector<CallRow> rows;

 private:
  World& world_;
  const CallsTask& task_;
  bool is_alone_;  // whether all ranks are in this process
};

/// Measures an n x n product by BLAS on all cores on rank 0, while the other ranks sleep.
template <class World>
Times blas_alone(World& world, std::size_t n, int calls, int repeats)
{
  std::vector<double> times;
  if (world.rank() == 0)
  {
    const AllCores cores;
    const std::vector<float> a(n * n, 1.0F), b(n * n, 1.0F);
    std::vector<float> c(n * n);
    const cubist::HostEngine engine;
    for (int i = -1; i < repeats; ++i)
    {
      const double all = seconds([&] {
        for (int k = 0; k < calls; ++k)
          engine.gemm(cubist::Op::none, cubist::Op::none, 1.0F, {a.data(), {n, n}},
                      {b.data(), {n, n}}, 0.0F, {c.data(), {n, n}});
      });
      if (i >= 0) times.push_back(all / calls);
    }
  }
  world.barrier();
  return Times{times};
}

/// A step of README's network on 16 rows.
template <class B>
class SmallStep
{
  using S = cubist::Summa2D;

 public:
  explicit SmallStep(const cubist::Mesh<S, B>& mesh)
      : mlp_{mesh, {256, 1024, 256}, {.activation = cubist::gelu, .seed = 42}},
        optimizer_{mlp_.parameters(), {.learning_rate = 1e-3F}},
        x_{mesh, {16, 256}},
        target_{mlp_.forward(x_)},
        dy_{zeros_like(target_)}
  {
  }
  void run()
  {
    const auto& y = mlp_.forward(x_);
    (void)mean_squared_error(y, target_, dy_);
    mlp_.backward(dy_);
    optimizer_.step(mlp_.parameters());
  }

 private:
  using Activations = cubist::NetworkMatrix<S, B, float>;

  cubist::MLP<S, B, float> mlp_;
  cubist::Adam<float, cubist::AxisMesh<typename S::Axes, B>> optimizer_;
  typename Activations::template Matrix<typename S::Input> x_;
  Activations target_, dy_;
};

/// @param peer (meter, call, calls) the times of one of so many calls of the peer
template <class B, class Peer>
std::optional<std::vector<CallRow>> measure_calls(const CallsTask& task, bool is_alone, Peer peer)
{
  std::optional<std::vector<CallRow>> rows;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    CallMeter meter{world, task, is_alone};
    std::vector<float> sum(1024, 1.0F), one(1, 1.0F);
    std::vector<float> all(static_cast<std::size_t>(task.ranks));
    constexpr int calls = 200;
    const auto row = [&](const std::string& name, auto f) {
      meter.measure(name, calls, f, [&] { return peer(meter, name, calls); });
    };
    row("barrier", [&] { world.barrier(); });
    row("all_gather 1", [&] { world.all_gather(std::span<const float>{one}, std::span{all}); });
    row("all_reduce 1024", [&] { world.all_reduce(std::span{sum}); });
    row("window 1", [&] {
      auto window = world.expose(one);
      window.close();
      window.wait();
    });
    const cubist::Mesh<cubist::Summa2D, B> mesh{world, extents_for<cubist::Summa2D>({}, task.ranks),
                                                cubist::IdleRanks::refused};
    for (const std::size_t n : {64U, 128U, 256U, 512U})
    {
      const int products = n <= 128 ? 100 : n == 256 ? 20 : 5;
      SchemeProduct<B, cubist::Summa2D, float> product{mesh, {"Summa2D", {}, {n, n, n}}};
      meter.measure(
          std::to_string(n) + "^3", products, [&] { product.forward(); },
          [&] { return blas_alone(world, n, products, task.repeats); });
    }
    SmallStep<B> step{mesh};
    meter.measure(
        "step of README's MLP", 20, [&] { step.run(); }, [] { return Times{}; });
    if (world.rank() == 0) rows = meter.rows;
  });
  return rows;
}

}  // namespace bench
