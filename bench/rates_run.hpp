// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The figures of a simulated machine, measured on all ranks at once. machine_run.hpp measures those
// of the planner's formulas.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/simulation/machine.hpp>

#include "machine_run.hpp"
#include "rates.hpp"

namespace bench
{

/// The least seconds of f in so many runs, of the slowest rank. All ranks run it at once; what
/// disturbs some of the runs does not count.
template <class World, class F>
double least_seconds(World& world, int repeats, F f)
{
  double least = std::numeric_limits<double>::max();
  world.barrier();
  for (int i = 0; i < repeats; ++i) least = std::min(least, seconds(f));
  world.all_reduce(std::span{&least, 1}, cubist::ReduceOp::max);
  return least;
}

/// Products of each shape of a grid.
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

/// Seconds of an exchange of pieces among all ranks, alone, and of a core for each byte and for
/// each message of it.
template <class B, class World>
class Exchange
{
 public:
  Exchange(World& world, std::size_t words, int calls)
      : world_{world}, piece_(words, 1.0),
        all_(words * static_cast<std::size_t>(world.size() * calls)), calls_{calls}
  {
  }

  /// Of one call.
  [[nodiscard]] double seconds()
  {
    return median_seconds(world_, 5, [&] { run([] {}); }) / calls_;
  }

  /// Seconds of the machine's cores in which products do not proceed, of one call. All cores
  /// multiply meanwhile.
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

  /// Bytes that one call sends, of all ranks.
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

/// Every rank of the world calls it.
/// @param machines that run the nodes; one may run several
template <class B, class World>
cubist::SimulatedMachine measure_rates(World& world, const RatesTask& task)
{
  using cubist::MatrixView;
  const int ranks = world.size();
  cubist::SimulatedMachine machine;
  machine.cores = double(std::thread::hardware_concurrency());
  machine.memory = double(memory_of_host()) / (task.nodes / task.machines);
  const int per_node = ranks / task.nodes;
  const int per_machine = ranks / task.machines;
  machine.nodes_sharing = task.nodes > task.machines ? most_nodes_sharing : 1;
  cubist::require<cubist::ArgumentError>(
      per_machine <= machine.cores, "got ", per_machine, " ranks on a machine of ", machine.cores,
      " cores, so each would be measured on a part of one; start as many ranks as cores");

  const typename B::Engine engine;
  constexpr cubist::Shape large{1024, 1024};
  std::vector<double> from(large.size(), 1.0), to(large.size());
  const double t_copy = least_seconds(world, 9, [&] {
    engine.copy(MatrixView<const double>{from.data(), large}, MatrixView<double>{to.data(), large});
  });
  machine.memory_bandwidth = 2 * sizeof(double) * double(large.size()) / t_copy;
  machine.rates = {{"float", measure_rates<float, B>(world, task.largest)},
                   {"double", measure_rates<double, B>(world, task.largest)}};

  machine.links.clear();
  if (per_node > 1 || task.nodes == 1)
    machine.links.push_back({.name = "memory",
                             .ranks = task.nodes == 1 ? 0 : per_node,
                             .latency = 1e-6,
                             .bandwidth = 4e9,
                             .overlaps = false});
  else
    machine.links.push_back(
        {.name = "memory", .ranks = 1, .latency = 1e-6, .bandwidth = 4e9, .overlaps = false});
  if (ranks == 1) return machine;
  const double peers = ranks - 1;
  const double latency = Exchange<B, World>{world, 1, 1}.seconds();
  constexpr std::size_t many = 1 << 19;
  Exchange<B, World> large_exchange{world, many, 1};
  const double seconds = large_exchange.seconds() - latency;
  auto& link = task.nodes == 1 ? machine.links.front() : machine.links.emplace_back();
  link.latency = latency;
  link.bandwidth = peers * many * sizeof(double) / seconds;
  if (task.nodes == 1) return machine;
  link.name = "network";
  link.bandwidth *= per_node;
  if (per_machine < static_cast<int>(machine.cores)) return machine;
  // Each byte leaves a node, and enters one.
  link.core_seconds_per_byte =
      large_exchange.core_seconds(machine.cores) / (2 * large_exchange.bytes());
  Exchange<B, World> small{world, 1, 64};
  link.core_seconds_per_message =
      std::max(0.0, small.core_seconds(machine.cores) / (2 * ranks * peers));
  return machine;
}

template <class B>
std::optional<cubist::SimulatedMachine> measure_rates(const RatesTask& task)
{
  std::optional<cubist::SimulatedMachine> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    auto machine = measure_rates<B>(world, task);
    if (world.rank() == 0) result = std::move(machine);
  });
  return result;
}

}  // namespace bench
