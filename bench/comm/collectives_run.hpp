// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The measurement behind collectives.hpp, for any backend.

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <cubist/backend/threads.hpp>

#include "comm/collectives.hpp"
#include "common/row.hpp"
#include "meter/meter.hpp"

namespace bench
{

/// Runs each collective on pieces of `words` elements.
template <class World>
class Collectives
{
 public:
  Collectives(World& world, std::size_t words)
      : world_{world},
        piece_(words, 1.0),
        pieces_(words * static_cast<std::size_t>(world.size()), 1.0),
        result_(piece_),
        results_(pieces_)
  {
  }

  template <class F>
  void each(F f)
  {
    using enum cubist::CallKind;
    f(barrier, [this](int) { world_.barrier(); });
    f(broadcast, [this](int root) { world_.broadcast(piece_, root); });
    f(reduce, [this](int root) { world_.reduce(piece_, result_, root); });
    f(all_reduce, [this](int) { world_.all_reduce(result_); });
    f(all_gather, [this](int) { world_.all_gather(piece_, results_); });
    f(reduce_scatter, [this](int) { world_.reduce_scatter(pieces_, result_); });
    f(all_to_all, [this](int) { world_.all_to_all(pieces_, results_); });
  }

 private:
  World& world_;
  std::vector<double> piece_, pieces_, result_, results_;
};

/// The speed of one rank's products in GFLOP/s, while all ranks multiply at once.
template <class B, class World>
double gemm_gflops(const CollectivesTask& task, World& world)
{
  constexpr std::size_t n = 512;
  const typename B::Engine engine;
  std::vector<double> a(n * n, 1.0), b(n * n, 1.0), c(n * n);
  Meter meter{world};
  for (int i = -task.warm_up; i < task.repeats; ++i)
    meter.run(i >= 0, [&] {
      engine.gemm(cubist::Op::none, cubist::Op::none, 1.0,
                  cubist::MatrixView<const double>{a.data(), {n, n}},
                  cubist::MatrixView<const double>{b.data(), {n, n}}, 0.0,
                  cubist::MatrixView<double>{c.data(), {n, n}});
    });
  return giga_operations(cubist::ProductSize{n, n, n}) / meter.cost().total.median;
}

/// Returns what the busiest rank sends according to the formulas.
inline cubist::Sent most_sent(cubist::CallKind collective, std::size_t words, int ranks)
{
  cubist::Sent most;
  for (int rank = 0; rank < ranks; ++rank)
  {
    cubist::Call<double> call;
    call.kind = collective;
    call.count = words;
    const auto sent = cubist::sent_by(call, rank, ranks);
    most = {std::max(most.messages, sent.messages), std::max(most.elements, sent.elements)};
  }
  return most;
}

template <class B>
std::optional<CollectivesResult> measure_collectives(const CollectivesTask& task)
{
  using Backend = Measured<B>;
  CollectivesResult result;
  bool mine = false;
  cubist::launch<Backend>({.ranks = task.ranks}, [&](auto& world) {
    const bool first = world.rank() == 0;
    const double gflops = gemm_gflops<Backend>(task, world);
    if (first) result.gemm_gflops = gflops;
    if (first) mine = true;
    for (const std::size_t words : task.words)
    {
      // Short calls are timed in batches. Each has another root, which waits for the call before.
      const std::size_t calls = std::clamp<std::size_t>(65'536 / words, 1, 100);
      Collectives collectives{world, words};
      collectives.each([&](cubist::CallKind collective, const auto& call) {
        Meter meter{world};
        for (int i = -task.warm_up; i < task.repeats; ++i)
          meter.run(i >= 0, [&] {
            for (std::size_t c = 0; c < calls; ++c)
              call(static_cast<int>(c % static_cast<std::size_t>(world.size())));
          });
        Times times = meter.cost().total;
        times.median /= static_cast<double>(calls);
        times.min /= static_cast<double>(calls);
        const auto sent = most_sent(collective, words, world.size());
        if (first)
          result.rows.push_back({cubist::to_string(collective), words, times,
                                 static_cast<double>(sent.elements),
                                 static_cast<double>(sent.messages)});
      });
    }
  });
  if (!mine) return std::nullopt;
  return result;
}

}  // namespace bench
