// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind planner.hpp, for any backend.

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <cubist/cubist.hpp>
#include <cubist/plan/planner.hpp>
#include <cubist/scheme/catalogue.hpp>

#include "planner.hpp"
#include "times.hpp"

namespace bench
{

/// Seconds from when the first rank begins f until all are through, the same on every rank.
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

/// The median of so many of them after a first one; of the first alone, if it took longer than
/// `enough`.
template <class World, class F>
double median_seconds(World& world, int repeats, F f, double enough = 1e9)
{
  const double first = seconds_of_all(world, f);
  if (first > enough) return first;
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) times.push_back(seconds_of_all(world, f));
  return median(times);
}

/// What the planner's model needs to know: how fast all ranks together multiply, read memory and
/// send.
template <class B, class World>
cubist::Machine measured_machine(World& world, const PlannerTask& task)
{
  using cubist::MatrixView;
  using cubist::Shape;
  cubist::Machine machine;
  const int ranks = world.size();
  machine.ranks_per_node = ranks / task.nodes;
  machine.cores = static_cast<double>(std::thread::hardware_concurrency());
  machine.nodes_sharing = task.nodes / task.machines;
  const double share = machine.share(ranks);

  const typename B::Engine engine;
  // What does not fit in a cache comes from memory, as fast as it can be copied.
  constexpr Shape large{1024, 1024};
  std::vector<double> from(large.size(), 1.0), to(large.size());
  const double t_copy = median_seconds(world, 5, [&] {
    engine.copy(MatrixView<const double>{from.data(), large}, MatrixView<double>{to.data(), large});
  });
  machine.memory_bandwidth =
      2 * sizeof(double) * static_cast<double>(large.size()) / (t_copy * share);

  constexpr std::size_t n = 512;
  constexpr cubist::LocalGemm gemm{n, n, n};
  std::vector<double> a(n * n, 1.0), b(n * n, 1.0), c(n * n);
  const double t_gemm = share * median_seconds(world, 5, [&] {
                          engine.gemm(cubist::Op::none, cubist::Op::none, 1.0,
                                      MatrixView<const double>{a.data(), {n, n}},
                                      MatrixView<const double>{b.data(), {n, n}}, 1.0,
                                      MatrixView<double>{c.data(), {n, n}});
                        });
  const double t_touch = sizeof(double) * gemm.touched() / machine.memory_bandwidth;
  machine.flops = gemm.flops() / std::max(t_gemm - t_touch, t_gemm / 2);

  if (ranks == 1) return machine;
  // Alone, and between products, where a rank that has to wait for others may lose more than the
  // way takes: the slower of both.
  const bool remote = task.nodes > 1;
  const auto sent = [&](std::size_t words) {
    constexpr std::size_t times = 10;
    std::vector<double> piece(words, 1.0), all(words * static_cast<std::size_t>(ranks));
    const auto run = [&](bool multiply, bool send) {
      return median_seconds(world, 5, [&] {
        for (std::size_t i = 0; i < times; ++i)
        {
          if (multiply)
            engine.gemm(cubist::Op::none, cubist::Op::none, 1.0,
                        MatrixView<const double>{a.data(), {n / 4, n}},
                        MatrixView<const double>{b.data(), {n, n}}, 1.0,
                        MatrixView<double>{c.data(), {n / 4, n}});
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
  const double messages = ranks - 1;
  auto& link = remote ? machine.across : machine.inside;
  const double scale = remote ? 1 : share;
  link.latency = sent(1) * scale / messages;
  link.bandwidth = sizeof(double) * messages * many /
                   std::max(sent(many) * scale - messages * link.latency, 1e-9);
  // A node's link is shared by its ranks.
  if (!remote) return machine;
  link.bandwidth *= machine.ranks_per_node;

  // How much of a message passes under a product that takes as long.
  std::vector<double> piece(many, 1.0), all(many * static_cast<std::size_t>(ranks));
  const auto send = [&] { world.all_gather(piece, all); };
  const double t_send = median_seconds(world, 5, send);
  const auto multiply = [&] {
    for (double t = 0; t < t_send; t += t_gemm / share / 4)
      engine.gemm(cubist::Op::none, cubist::Op::none, 1.0,
                  MatrixView<const double>{a.data(), {n / 4, n}},
                  MatrixView<const double>{b.data(), {n, n}}, 1.0,
                  MatrixView<double>{c.data(), {n / 4, n}});
  };
  const double t_multiply = median_seconds(world, 5, multiply);
  const double t_both = median_seconds(world, 5, [&] {
    auto request = world.async_all_gather(piece, all);
    multiply();
    request.wait();
  });
  machine.hidden =
      std::clamp((t_send + t_multiply - t_both) / std::min(t_send, t_multiply), 0.0, 1.0);
  return machine;
}

/// What multiplies by a plan, on the ranks that it uses; elsewhere it does nothing.
template <class B, class World>
std::function<void()> prepared(World& world, const cubist::Plan& plan, cubist::ProductSize size,
                               bool training)
{
  std::function<void()> multiply = [] {};
  cubist::with_scheme(plan.scheme, [&]<class S>() {
    const cubist::Mesh<S, B> mesh{world, plan};
    if (!mesh.active()) return;
    using Product = cubist::DistMatMul<S, B, double>;
    struct State
    {
      Product product;
      typename Product::Input x;
      typename Product::Weight w;
      typename Product::Output y;
      typename Product::Input dx;
      typename Product::Weight dw;
    };
    const auto state = std::make_shared<State>(
        State{Product{mesh, size, cubist::Gathered::kept, cubist::Method::collectives},
              {mesh, {size.m, size.k}},
              {mesh, {size.k, size.n}},
              {mesh, {size.m, size.n}},
              {mesh, {size.m, size.k}},
              {mesh, {size.k, size.n}}});
    mesh.engine().fill(state->x.valid(), 1.0);
    mesh.engine().fill(state->w.valid(), 1.0);
    multiply = [state, training] {
      auto& [product, x, w, y, dx, dw] = *state;
      product.forward(x, w, y);
      if (training) product.backward(x, w, y, dx, dw);
    };
  });
  return multiply;
}

template <class B, class World>
PlannerRow measure_shape(World& world, const PlannerTask& task, const cubist::Machine& machine,
                         cubist::ProductSize size)
{
  PlannerRow row;
  row.size = size;
  double least = 1e9;
  for (const auto& plan : cubist::plan(size, world.size(), machine,
                                       {.scalar_bytes = sizeof(double), .training = task.training}))
  {
    if (task.all_ranks && plan.idle > 0) continue;
    // What takes twice as long as another mesh need not be known exactly.
    const double time = median_seconds(world, task.repeats,
                                       prepared<B>(world, plan, size, task.training), 2 * least);
    row.all.push_back({plan, time});
    least = std::min(least, time);
  }

  // The fastest of so many is fast by luck as well: those that come near run again, in turns; and
  // the one that wins runs against the choice once more, and only that counts.
  std::vector<std::size_t> near(row.all.size());
  std::iota(near.begin(), near.end(), std::size_t{0});
  std::sort(near.begin() + 1, near.end(),
            [&](std::size_t a, std::size_t b) { return row.all[a].seconds < row.all[b].seconds; });
  near.resize(std::min<std::size_t>(near.size(), 7));
  const auto compete = [&](const std::vector<std::size_t>& candidates) {
    std::vector<std::function<void()>> products;
    for (const std::size_t i : candidates)
      products.push_back(prepared<B>(world, row.all[i].plan, size, task.training));
    // Ranks that share a core take turns of some milliseconds: a step is timed as one of many.
    const int steps = 1 + static_cast<int>(task.sample_seconds / least);
    std::vector<std::vector<double>> times(candidates.size());
    for (const auto& product : products) product();
    for (int round = 0; round < task.final_repeats; ++round)
      for (std::size_t n = 0; n < candidates.size(); ++n)
        times[n].push_back(seconds_of_all(world,
                                          [&] {
                                            for (int i = 0; i < steps; ++i) products[n]();
                                          }) /
                           steps);
    for (std::size_t n = 0; n < candidates.size(); ++n)
      row.all[candidates[n]].seconds = median(times[n]);
  };
  compete(near);
  const std::size_t fastest =
      *std::min_element(near.begin(), near.end(), [&](std::size_t a, std::size_t b) {
        return row.all[a].seconds < row.all[b].seconds;
      });
  if (fastest != 0) compete({0, fastest});
  row.choice = row.all[0];
  row.fastest = row.all[fastest];
  return row;
}

template <class B>
std::optional<PlannerResult> measure_planner(const PlannerTask& task)
{
  std::optional<PlannerResult> result;
  cubist::launch<B>({.ranks = task.ranks}, [&](auto& world) {
    PlannerResult mine;
    mine.machine = task.machine ? *task.machine : measured_machine<B>(world, task);
    for (const auto& size : task.sizes)
      mine.rows.push_back(measure_shape<B>(world, task, mine.machine, size));
    if (world.rank() == 0) result = std::move(mine);
  });
  return result;
}

}  // namespace bench
