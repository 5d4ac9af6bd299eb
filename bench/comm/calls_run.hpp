// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind calls.hpp, for any backend.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <thread>
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
#include "comm/kernel_calls.hpp"
#include "meter/all_cores.hpp"
#include "products/product.hpp"

namespace bench
{

/// What this process has used so far.
struct Usage
{
  using Numbers = std::array<double, 6>;

  static Usage now()
  {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    const auto seconds = [](const timeval& t) {
      return double(t.tv_sec) + 1e-6 * double(t.tv_usec);
    };
    const auto calls = KernelCalls::now();
    return {{seconds(u.ru_utime), seconds(u.ru_stime), double(u.ru_nvcsw + u.ru_nivcsw),
             calls.yields, calls.waits, calls.wakes}};
  }
  [[nodiscard]] Numbers since(const Usage& before) const
  {
    Numbers all = numbers;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] -= before.numbers[i];
    return all;
  }

  Numbers numbers{};
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

  /// Measures `f`, and adds a row on rank 0.
  /// @param single  the same call on a single rank; all ranks together make `copies` of it
  /// @param peer  measures the peer's call; returns Times{} if there is no peer
  template <class F, class Single, class Peer>
  void measure(const std::string& name, int calls, F f, Single single, int copies, Peer peer)
  {
    const auto [times, usage] = time(calls, f);
    CallRow row{name, times, peer()};
    row.work = copies * time_alone(calls, single);
    if (!is_first()) return;
    const auto& [user, kernel, switches, yields, waits, wakes] = usage;
    row.user = user;
    row.kernel = kernel;
    row.idle = std::max(0.0, std::thread::hardware_concurrency() * times.median - user - kernel);
    row.switches = switches;
    row.yields = yields;
    row.futex_waits = waits;
    row.futex_wakes = wakes;
    rows.push_back(row);
  }
  /// The times of one call, of `calls` in a row, and what it used, averaged over all repeats.
  template <class F>
  [[nodiscard]] std::pair<Times, Usage::Numbers> time(int calls, F f)
  {
    std::vector<double> times;
    Usage::Numbers usage{};
    for (int i = -task_.warm_up; i < task_.repeats; ++i)
    {
      world_.barrier();
      const auto before = Usage::now();
      const double all = seconds([&] {
        for (int c = 0; c < calls; ++c) f();
        world_.barrier();
      });
      if (i < 0) continue;
      times.push_back(all / calls);
      const auto used = Usage::now().since(before);
      for (std::size_t n = 0; n < used.size(); ++n) usage[n] += used[n] / calls / task_.repeats;
    }
    if (!is_alone_) world_.all_reduce(std::span<double>{usage});
    return {Times{times}, usage};
  }

  [[nodiscard]] bool is_first() const { return world_.rank() == 0; }
  void barrier() { world_.barrier(); }

  std::vector<CallRow> rows;

 private:
  /// Seconds of one call, of `calls` in a row on rank 0, while the other ranks sleep.
  template <class F>
  double time_alone(int calls, F f)
  {
    std::vector<double> times;
    for (int i = 0; i < task_.repeats && is_first(); ++i)
      times.push_back(seconds([&] {
                        for (int c = 0; c < calls; ++c) f();
                      }) /
                      calls);
    world_.barrier();
    return Times{times}.median;
  }

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

/// Measures all calls beside those of a peer.
/// @param peer  (meter, call, calls): returns the times of one of `calls` calls of the peer
template <class B, class Peer>
std::optional<std::vector<CallRow>> measure_calls(const CallsTask& task, bool is_alone, Peer peer)
{
  std::optional<std::vector<CallRow>> rows;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    CallMeter meter{world, task, is_alone};
    std::vector<float> sum(1024, 1.0F), one(1, 1.0F), large(4096, 1.0F);
    std::vector<float> all(static_cast<std::size_t>(task.ranks));
    constexpr int calls = 200;
    auto self = world.split(world.rank(), 0);  // this rank alone
    // f(communicator)
    const auto row = [&](const std::string& name, auto f) {
      meter.measure(
          name, calls, [&] { f(world); }, [&] { f(self); }, task.ranks,
          [&] { return peer(meter, name, calls); });
    };
    row("barrier", [](auto& ranks) { ranks.barrier(); });
    row("all_gather 1", [&](auto& ranks) {
      ranks.all_gather(std::span<const float>{one},
                       std::span{all}.first(static_cast<std::size_t>(ranks.size())));
    });
    row("all_reduce 1024", [&](auto& ranks) { ranks.all_reduce(std::span{sum}); });
    for (const std::size_t n : {1U, 4096U})
      row("window " + std::to_string(n), [&, n](auto& ranks) {
        auto window = ranks.expose(std::span<const float>{large}.first(n));
        (void)window[0];
        window.close();
        window.wait();
      });
    using Mesh = cubist::Mesh<cubist::Summa2D, B>;
    const Mesh mesh{world, extents_for<cubist::Summa2D>({}, task.ranks),
                    cubist::IdleRanks::refused};
    const Mesh alone{self, extents_for<cubist::Summa2D>({}, 1), cubist::IdleRanks::refused};
    for (const std::size_t n : {64U, 128U, 256U, 512U})
    {
      const int products = n <= 128 ? 100 : n == 256 ? 20 : 5;
      using Product = SchemeProduct<B, cubist::Summa2D, float>;
      const ProductSetting setting{"Summa2D", {}, {n, n, n}};
      Product product{mesh, setting};
      Product single{alone, setting};
      meter.measure(
          std::to_string(n) + "^3", products, [&] { product.forward(); }, [&] { single.forward(); },
          1, [&] { return blas_alone(world, n, products, task.repeats); });
    }
    SmallStep<B> step{mesh};
    SmallStep<B> single{alone};
    meter.measure(
        "step of README's MLP", 20, [&] { step.run(); }, [&] { single.run(); }, 1,
        [] { return Times{}; });
    if (world.rank() == 0) rows = meter.rows;
  });
  return rows;
}

}  // namespace bench
