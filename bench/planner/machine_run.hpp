// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures a machine on all ranks at once: how fast they multiply, pack, copy and send, and how
// long messages occupy the cores.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <cubist/comm/window.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/machine/machine.hpp>

#include "common/row.hpp"
#include "common/times.hpp"
#include "planner/machine.hpp"

namespace bench
{

/// Seconds from the start of f on the first rank to its end on the last; the same on every rank.
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

/// The median seconds of `repeats` runs after a first one. If the first takes longer than `enough`,
/// no other follows, and its seconds are returned.
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

/// The seconds of f on the slowest rank, where each rank counts its fastest run, so that what
/// disturbs some runs does not count. All ranks run f at once.
template <class World, class F>
double least_seconds(World& world, int repeats, F f)
{
  double least = std::numeric_limits<double>::max();
  world.barrier();
  for (int i = 0; i < repeats; ++i) least = std::min(least, seconds(f));
  world.all_reduce(std::span{&least, 1}, cubist::ReduceOp::max);
  return least;
}

/// Times products of one engine, on all ranks at once.
template <class T, class World, class Engine>
class Gemms
{
 public:
  Gemms(World& world, const Engine& engine, std::size_t most)
      : world_{world},
        engine_{engine},
        a_(most, T{1}),
        b_(most, T{1}),
        c_(most)
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

/// Measures the rate of products for each shape of a grid.
template <class T, class B, class World>
cubist::RateTable measure_rates(World& world, std::size_t largest)
{
  cubist::RateTable table;
  std::vector<std::size_t> sizes;
  for (std::size_t n = 32; n <= largest; n *= 2) sizes.push_back(n);
  table.m.assign(sizes.begin(), sizes.end());
  table.n = table.k = table.m;
  const typename B::Engine engine;
  Gemms<T, World, typename B::Engine> gemms{world, engine, largest * largest};
  for (const std::size_t m : sizes)
    for (const std::size_t n : sizes)
      for (const std::size_t k : sizes)
      {
        const double flops = 2.0 * double(m) * double(n) * double(k);
        const int times = std::clamp(static_cast<int>(1e8 / flops), 1, 1000);
        const double seconds = least_seconds(world, 5, [&] {
          for (int i = 0; i < times; ++i) gemms.multiply({m, n, k});
        });
        table.rates.push_back(flops * times / seconds);
      }
  return table;
}

/// Seconds to pack an element of A, to pack an element of B, and for one multiply-add.
struct Packing
{
  double a;
  double b;
  double product;

  [[nodiscard]] double unit() const { return (a + b) / 2; }
};

/// Solves the model of GemmRates, t(m, n, k) = product m n k + (a m + b n) k + m n (a + b) / 4, for
/// a cube, a product with few columns and one with few rows.
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
  // The last two products together have as many operations as the cube.
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

/// Measures the rates of one core in direct products.
/// @param share  of a core that each rank has
/// @param t_copy  seconds to copy a byte, with that share
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

/// Measures the time of messages between the ranks of a node, both alone and between products,
/// where a rank that waits may lose more time than the messages take. The slower of the two counts.
/// @param share  of a core that each rank has
template <class World, class Engine>
void measure_inside(World& world, Gemms<double, World, Engine>& gemms, double share,
                    cubist::Link& link)
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
  link.latency = send_seconds(1) * share / messages;
  link.bandwidth = sizeof(double) * messages * many /
                   std::max(send_seconds(many) * share - messages * link.latency, 1e-9);
}

/// Times an exchange of pieces among all ranks: the exchange alone, and the core time that its
/// bytes and messages take.
template <class B, class World>
class Exchange
{
 public:
  Exchange(World& world, std::size_t words, int calls)
      : world_{world},
        piece_(words, 1.0),
        all_(words * static_cast<std::size_t>(world.size() * calls)),
        calls_{calls}
  {
  }

  /// Seconds of one call.
  [[nodiscard]] double seconds()
  {
    return median_seconds(world_, 5, [&] { run([] {}); }) / calls_;
  }

  /// Seconds of core time that one call takes away from products, while all cores multiply.
  [[nodiscard]] double core_seconds(double cores)
  {
    const typename B::Engine engine;
    Gemms<double, World, typename B::Engine> gemms{world_, engine, std::size_t{512} * 512};
    const double alone = seconds() * calls_;
    const double product = gemms.seconds({128, 512, 512});
    const int products = 1 + static_cast<int>(2 * alone / product);
    const auto multiply = [&] {
      for (int i = 0; i < products; ++i) gemms.multiply({128, 512, 512});
    };
    std::vector<double> losses;
    for (int i = 0; i < 9; ++i)
    {
      const double without = seconds_of_all(world_, multiply);
      losses.push_back(seconds_of_all(world_, [&] { run(multiply); }) - without);
    }
    return std::max(0.0, median(losses)) * cores / calls_;
  }

  /// The bytes that all ranks send in one call.
  [[nodiscard]] double bytes() const
  {
    return double(piece_.size() * sizeof(double)) * world_.size() * (world_.size() - 1);
  }

 private:
  template <class F>
  void run(F meanwhile)
  {
    std::vector<decltype(world_.async_all_gather(piece_, all_))> requests;
    const std::size_t part = all_.size() / static_cast<std::size_t>(calls_);
    for (int i = 0; i < calls_; ++i)
      requests.push_back(world_.async_all_gather(
          piece_, std::span{all_}.subspan(static_cast<std::size_t>(i) * part, part)));
    meanwhile();
    for (auto& request : requests) request.wait();
  }

  World& world_;
  std::vector<double> piece_, all_;
  int calls_;
};

/// Measures the links between nodes, and how long their messages occupy the cores.
template <class B, class World>
void measure_across(World& world, const MachineTask& task, cubist::Machine& machine)
{
  const double peers = world.size() - 1;
  cubist::Link& link = machine.links.back();
  link.latency = Exchange<B, World>{world, 1, 1}.seconds() / peers;
  constexpr std::size_t many = 1 << 19;
  Exchange<B, World> large{world, many, 1};
  const double seconds = large.seconds() - peers * link.latency;
  // The ranks of a node share its link.
  link.bandwidth = machine.ranks_per_node() * peers * many * sizeof(double) / seconds;
  // Where a machine has cores that do not multiply, those cores send.
  if (world.size() / task.machines < static_cast<int>(machine.cores)) return;
  const double cores = machine.cores * task.machines;
  // Each byte leaves one node and enters another.
  link.core_seconds_per_byte = large.core_seconds(cores) / (2 * large.bytes());
  Exchange<B, World> small{world, 1, 64};
  link.core_seconds_per_message = small.core_seconds(cores) / (2 * world.size() * peers);
}

/// Measures the machine. Every rank of the world calls it.
template <class B, class World>
cubist::Machine measure_machine(World& world, const MachineTask& task)
{
  using cubist::MatrixView;
  const int ranks = world.size();
  cubist::Machine machine;
  machine.cores = static_cast<double>(std::thread::hardware_concurrency());
  machine.memory = static_cast<double>(memory_of_host()) / (task.nodes / task.machines);
  machine.nodes_sharing = task.nodes > task.machines ? most_nodes_sharing : 1;
  machine.links.front().ranks = ranks / task.nodes;
  const double share = machine.share(ranks);

  const typename B::Engine engine;
  // 8 MB do not fit in the cache.
  constexpr cubist::Shape large{1024, 1024};
  constexpr double bytes = sizeof(double) * static_cast<double>(large.size());
  std::vector<double> from(large.size(), 1.0), to(large.size());
  const double t_copy = median_seconds(world, 9, [&] {
    engine.copy(MatrixView<const double>{from.data(), large}, MatrixView<double>{to.data(), large});
  });
  machine.memory_bandwidth = 2 * bytes / (t_copy * share);
  machine.gemm = measure_gemm_rates(world, engine, share, t_copy / bytes);

  constexpr cubist::ProductSize size{512, 512, 512};
  Gemms<double, World, typename B::Engine> gemms{world, engine, size.m * size.k};
  // If ranks took turns on a core, they would disturb each other's measurements of many shapes.
  if (task.largest > 0 && share == 1)
    machine.rates = {{"float", measure_rates<float, B>(world, task.largest)},
                     {"double", measure_rates<double, B>(world, task.largest)}};
  else
  {
    const double t_gemm = share * gemms.seconds(size);
    const double t_touch =
        sizeof(double) * cubist::touched_elements(size) / machine.memory_bandwidth;
    const double flops = 1e9 * giga_operations(size) / std::max(t_gemm - t_touch, t_gemm / 2);
    machine.rates = {{"float", cubist::RateTable::peak(2 * flops)},
                     {"double", cubist::RateTable::peak(flops)}};
  }
  if (ranks == 1) return machine;
  if (task.nodes == 1)
    measure_inside(world, gemms, share, machine.links.front());
  else
    measure_across<B>(world, task, machine);
  return machine;
}

template <class B>
std::optional<cubist::Machine> measure_machine(const MachineTask& task)
{
  std::optional<cubist::Machine> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    auto machine = measure_machine<B>(world, task);
    if (world.rank() == 0) result = std::move(machine);
  });
  return result;
}

}  // namespace bench
