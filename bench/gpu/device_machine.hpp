// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Measures the figures of a machine in which each rank has a GPU, on all GPUs at once. Calls are
// queued, and the host waits for the device once, as in programs.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cubist/backend/backend.hpp>
#include <cubist/core/matrix_view.hpp>
#include <cubist/core/scalar.hpp>
#include <cubist/machine/machine.hpp>
#include <cubist/matrix/staging.hpp>

#include "common/scalars.hpp"
#include "common/times.hpp"
#include "gpu/device_site.hpp"
#include "planner/machine.hpp"

namespace bench
{

/// Seconds of one call, of `calls` in a row: the slowest rank's time in the fastest of five runs.
template <class Engine, class World, class F>
double seconds_of_queued(World& world, int calls, F f)
{
  double least = std::numeric_limits<double>::max();
  constexpr int runs = 5;
  for (int i = -1; i < runs; ++i)  // the first run warms up
  {
    world.barrier();
    double time = seconds([&] {
      for (int c = 0; c < calls; ++c) f();
      cubist::ComputeStream::synchronize();
    });
    cubist::with_staging_buffer(Engine{}, std::span{&time, 1}, [&](auto there) {
      world.all_reduce(there, cubist::ReduceOp::max);
    });
    if (i >= 0) least = std::min(least, time / calls);
  }
  return least;
}

/// Measures the rates of products C += A B for each shape of a grid.
/// @param call_seconds  seconds of a call that does nothing, which the simulator adds to each
/// product
template <class T, class Engine, class World>
cubist::RateTable device_rates(World& world, std::size_t largest, double call_seconds)
{
  using cubist::MatrixView;
  cubist::RateTable table;
  for (std::size_t n = largest; n >= 32 && table.m.size() < 6; n /= 2)
    table.m.insert(table.m.begin(), double(n));
  table.n = table.k = table.m;
  cubist::CudaBuffer<T> a(largest * largest), b(largest * largest), c(largest * largest);
  const Engine engine;
  for (const double m : table.m)
    for (const double n : table.n)
      for (const double k : table.k)
      {
        const auto rows = std::size_t(m);
        const auto cols = std::size_t(n);
        const auto inner = std::size_t(k);
        const double flops = 2 * m * n * k;
        const int calls = std::clamp(static_cast<int>(1e11 / flops), 1, 200);
        const double each = seconds_of_queued<Engine>(world, calls, [&] {
          engine.gemm(cubist::Op::none, cubist::Op::none, T{1},
                      MatrixView<const T>{a.data(), {rows, inner}},
                      MatrixView<const T>{b.data(), {inner, cols}}, T{1},
                      MatrixView<T>{c.data(), {rows, cols}});
        });
        table.rates.push_back(flops / std::max(each - call_seconds, each / 10));
      }
  return table;
}

/// Measures the link's latency and bandwidth by an all_gather of these ranks, taken as a ring: each
/// rank sends and receives all blocks but one.
template <class Engine, class World>
void measure_link(World& world, cubist::Link& link)
{
  constexpr std::size_t words = 1 << 20;
  const auto blocks = static_cast<std::size_t>(world.size());
  cubist::CudaBuffer<double> mine(words), all(words * blocks);
  const auto gather = [&](std::size_t n) {
    return seconds_of_queued<Engine>(world, 10, [&] {
      world.all_gather(std::span<const double>{mine.data(), n}, std::span{all.data(), n * blocks});
    });
  };
  link.latency = gather(1) / double(blocks - 1);
  link.bandwidth =
      double(blocks - 1) * words * sizeof(double) / std::max(gather(words) - gather(1), 1e-9);
}

/// Measures the machine. Every rank of the world calls it.
template <class Engine, class Scalars, class World>
cubist::Machine measure_device_machine(World& world, const MachineTask& task)
{
  using cubist::MatrixView;
  const int per_node = world.size() / task.nodes;
  cubist::Machine machine;
  machine.algorithms = cubist::CollectiveAlgorithms::nccl;
  machine.cores = per_node;
  machine.memory = double(task.gpu_memory) * per_node;
  machine.segment_bytes = 1 << 17;
  machine.shared_memory = false;

  const Engine engine;
  cubist::CudaBuffer<float> one(1);
  machine.call_seconds = seconds_of_queued<Engine>(world, 500, [&] {
    engine.fill(MatrixView<float>{one.data(), {1, 1}}, 0.F);
  });
  constexpr cubist::Shape large{4096, 4096};
  cubist::CudaBuffer<float> from(large.size()), to(large.size());
  const double copy = seconds_of_queued<Engine>(world, 20, [&] {
    engine.copy(MatrixView<const float>{from.data(), large}, MatrixView<float>{to.data(), large});
  });
  machine.memory_bandwidth = 2 * sizeof(float) * double(large.size()) / copy;
  machine.rates.clear();
  Scalars::for_each([&]<class T>() {
    machine.rates.emplace(cubist::element_name<T>(),
                          device_rates<T, Engine>(world, task.largest, machine.call_seconds));
  });

  // A machine with one GPU has no links to measure, so the memory's figures stand in for them.
  cubist::Link inside{.name = "node",
                      .ranks = task.nodes == 1 ? 0 : per_node,
                      .latency = machine.call_seconds,
                      .bandwidth = machine.memory_bandwidth};
  if (per_node > 1)
  {
    auto node = world.split(world.rank() / per_node, world.rank());
    measure_link<Engine>(node, inside);
  }
  machine.links = {inside};
  if (task.nodes > 1)
    measure_link<Engine>(world, machine.links.emplace_back(cubist::Link{.name = "network"}));
  return machine;
}

template <class B, class Scalars>
std::optional<cubist::Machine> measure_device_machine(const MachineTask& task)
{
  std::optional<cubist::Machine> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    auto machine = measure_device_machine<typename B::Engine, Scalars>(world, task);
    if (world.rank() == 0) result = std::move(machine);
  });
  return result;
}

}  // namespace bench
