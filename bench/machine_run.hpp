// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The figures of the planner's model, measured on all ranks at once: how fast they multiply, pack,
// copy and send.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <cubist/comm/window.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/plan/machine.hpp>
#include <cubist/plan/work.hpp>

#include "times.hpp"

namespace bench
{

/// Seconds from the start of f on the first rank to its end on the last, the same on every rank.
template <class World, class F>
double seconds_of_all(World& world, F f)
{
  world.barrier();
  double time = seconds([&] {
    f();
    world.barrier();
  });
  world.all_reduce(std::span{&time, 1}, cubist::ReduceOp::max);
  return time;
}

/// The median of so many of them after a first one; the first alone, if it takes longer than
/// `enough`.
template <class World, class F>
double median_seconds(World& world, int repeats, F f,
                      double enough = std::numeric_limits<double>::max())
{
  const double first = seconds_of_all(world, f);
  if (first > enough) return first;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(seconds_of_all(world, f));
  return median(times);
}

/// Products of one engine, with all ranks at once.
template <class T, class World, class Engine>
class Gemms
{
 public:
  Gemms(World& world, const Engine& engine, std::size_t most)
      : world_{world}, engine_{engine}, a_(most, T{1}), b_(most, T{1}), c_(most)
  {
  }

  /// C += A B
  void multiply(cubist::ProductSize s)
  {
    using cubist::MatrixView;
    engine_.gemm(
        cubist::Op::none, cubist::Op::none, T{1}, MatrixView<const T>{a_.data(), {s.m, s.k}},
        MatrixView<const T>{b_.data(), {s.k, s.n}}, T{1}, MatrixView<T>{c_.data(), {s.m, s.n}});
  }
  double seconds(cubist::ProductSize s)
  {
    return median_seconds(world_, 5, [&] { multiply(s); });
  }

 private:
  World& world_;
  const Engine& engine_;
  std::vector<T> a_, b_, c_;
};

/// How long it takes to pack the elements of A and B, and to multiply, in seconds.
struct Packing
{
  double a;
  double b;
  double product;

  [[nodiscard]] double unit() const { return (a + b) / 2; }
};

/// Solves t(m, n, k) = product m n k + (a m + b n) k + m n (a + b) / 4, the model of GemmRates, for
/// a cube, a product of few columns and one of few rows.
template <class Seconds>
Packing measure_packing(Seconds seconds)
{
  constexpr double cube = 512;
  constexpr double many = 2048;
  constexpr double few = 64;
  const auto size = [](double n) { return static_cast<std::size_t>(n); };
  const double t_cube = seconds(cubist::ProductSize{size(cube), size(cube), size(cube)});
  const double t_rows = seconds(cubist::ProductSize{size(many), size(few), size(cube)});
  const double t_cols = seconds(cubist::ProductSize{size(few), size(many), size(cube)});
  // t_rows + t_cols has as many operations as the cube.
  static_assert(2 * many * few == cube * cube);
  const double sum = std::max((t_rows + t_cols - t_cube) /
                                  ((many + few) * cube + many * few / 2 - 1.25 * cube * cube),
                              0.05 * t_cube / (cube * cube));
  const double difference =
      std::clamp((t_rows - t_cols) / ((many - few) * cube), -0.8 * sum, 0.8 * sum);
  const double product =
      std::max(t_cube - 1.25 * cube * cube * sum, t_cube / 2) / (cube * cube * cube);
  return {(sum + difference) / 2, (sum - difference) / 2, product};
}

/// The rates of one core in direct products.
/// @param share of a core that each rank has
/// @param t_copy seconds to copy a byte, with that share
template <class World, class Engine>
cubist::GemmRates measure_gemm_rates(World& world, const Engine& engine, double share,
                                     double t_copy)
{
  constexpr std::size_t most = std::size_t{2048} * 512;
  cubist::GemmRates rates;
  Gemms<double, World, Engine> doubles{world, engine, most};
  Gemms<float, World, Engine> floats{world, engine, most};
  const Packing wide = measure_packing([&](auto size) { return doubles.seconds(size); });
  const Packing single = measure_packing([&](auto size) { return floats.seconds(size); });
  rates.products = wide.unit() / wide.product;
  rates.pack_a_double = wide.a / wide.unit();
  rates.pack_b_double = wide.b / wide.unit();
  rates.pack_a_float = single.a / single.unit();
  rates.pack_b_float = single.b / single.unit();
  rates.copy = t_copy / wide.unit();
  if constexpr (cubist::ExposesMemory<World>)
    if (cubist::can_expose(world) && world.size() > 1)
    {
      const std::vector<double> mine(1);
      const double t_window = median_seconds(world, 5, [&] {
        for (int i = 0; i < 20; ++i)
        {
          auto window = world.expose(std::span{mine});
          window.close();
          window.wait();
        }
      });
      rates.window = t_window * share / (20 * world.size() * wide.unit());
    }
  return rates;
}

/// The time of messages, alone and between products, where a rank that waits may lose more time
/// than the messages take: the slower of both.
template <class World, class Engine>
cubist::Link measure_link(World& world, Gemms<double, World, Engine>& gemms, double scale)
{
  const auto ranks = static_cast<std::size_t>(world.size());
  const auto send_seconds = [&](std::size_t words) {
    constexpr std::size_t times = 10;
    std::vector<double> piece(words, 1.0), all(words * ranks);
    const auto run = [&](bool multiply, bool send) {
      return median_seconds(world, 5, [&] {
        for (std::size_t i = 0; i < times; ++i)
        {
          if (multiply) gemms.multiply({128, 512, 512});
          if (!send) continue;
          world.all_gather(piece, all);
          world.reduce_scatter(all, piece);
        }
      });
    };
    const double products = run(true, false);
    return std::max(run(true, true) - products, run(false, true)) / (2 * times);
  };
  constexpr std::size_t many = 65'536;
  const double messages = world.size() - 1;
  cubist::Link link;
  link.latency = send_seconds(1) * scale / messages;
  link.bandwidth = sizeof(double) * messages * many /
                   std::max(send_seconds(many) * scale - messages * link.latency, 1e-9);
  return link;
}

/// The part of the time of messages that overlaps with products of the same length.
template <class World, class Engine>
double measure_hidden(World& world, Gemms<double, World, Engine>& gemms)
{
  std::vector<double> piece(65'536, 1.0),
      all(piece.size() * static_cast<std::size_t>(world.size()));
  const double t_gemm = gemms.seconds({128, 512, 512});
  const double t_send = median_seconds(world, 5, [&] { world.all_gather(piece, all); });
  const auto multiply = [&] {
    for (double t = 0; t < t_send; t += t_gemm) gemms.multiply({128, 512, 512});
  };
  const double t_multiply = median_seconds(world, 5, multiply);
  const double t_both = median_seconds(world, 5, [&] {
    auto request = world.async_all_gather(piece, all);
    multiply();
    request.wait();
  });
  return std::clamp((t_send + t_multiply - t_both) / std::min(t_send, t_multiply), 0.0, 1.0);
}

/// Every rank of the world calls it.
/// @param machines that run the nodes; one may run several
template <class B, class World>
cubist::Machine measure_machine(World& world, int nodes, int machines)
{
  using cubist::MatrixView;
  cubist::Machine machine;
  const int ranks = world.size();
  machine.ranks_per_node = ranks / nodes;
  machine.cores = static_cast<double>(std::thread::hardware_concurrency());
  machine.nodes_sharing = nodes / machines;
  const double share = machine.share(ranks);

  const typename B::Engine engine;
  // 8 MB do not fit in a cache.
  constexpr cubist::Shape large{1024, 1024};
  constexpr double bytes = sizeof(double) * static_cast<double>(large.size());
  std::vector<double> from(large.size(), 1.0), to(large.size());
  const double t_copy = median_seconds(world, 5, [&] {
    engine.copy(MatrixView<const double>{from.data(), large}, MatrixView<double>{to.data(), large});
  });
  machine.memory_bandwidth = 2 * bytes / (t_copy * share);

  constexpr cubist::LocalGemm gemm{512, 512, 512};
  Gemms<double, World, typename B::Engine> gemms{world, engine, std::size_t{512} * 512};
  const double t_gemm = share * gemms.seconds({512, 512, 512});
  const double t_touch = sizeof(double) * gemm.touched() / machine.memory_bandwidth;
  machine.flops = gemm.flops() / std::max(t_gemm - t_touch, t_gemm / 2);
  machine.gemm = measure_gemm_rates(world, engine, share, t_copy / bytes);

  if (ranks == 1) return machine;
  if (nodes == 1)
  {
    machine.inside = measure_link(world, gemms, share);
    return machine;
  }
  machine.across = measure_link(world, gemms, 1);
  machine.across.bandwidth *= machine.ranks_per_node;  // which share the link of a node
  machine.hidden = measure_hidden(world, gemms);
  return machine;
}

}  // namespace bench
