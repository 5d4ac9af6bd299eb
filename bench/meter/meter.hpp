// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Times a function on all ranks of a `Measured` backend together.

#include <array>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <cubist/backend/threads.hpp>
#include <cubist/engine/span.hpp>
#include <cubist/matrix/staging.hpp>
#include <cubist/trace/traced.hpp>

#include "common/row.hpp"
#include "meter/breakdown.hpp"
#include "meter/measured.hpp"

namespace bench
{

/// Runs a function on all ranks repeatedly, and measures its cost. Every rank makes a meter, and
/// calls it together with the others.
template <class World>
class Meter
{
 public:
  /// @param tells_shares  also measure the shares of the time, which costs little
  explicit Meter(World& world, bool tells_shares = false)
      : world_{&world},
        tells_shares_{tells_shares}
  {
  }

  /// Measures one call of f, of `calls` in a row, from the barrier before them to the one after
  /// them. A first call does not count.
  template <class F>
  void run(bool counts, F f, int calls = 1)
  {
    measure(counts, f, calls);
    world_->barrier();  // no rank occupies a core before all have read the clock
  }

  /// What one run costs; the same on all ranks.
  [[nodiscard]] Cost cost() const
  {
    auto times = times_;
    auto communication = communication_;
    reduce(times, cubist::ReduceOp::max);
    reduce(communication, cubist::ReduceOp::sum);
    std::array most{static_cast<double>(sent_.elements), static_cast<double>(sent_.messages)};
    std::array sum{most[0]};
    reduce(most, cubist::ReduceOp::max);
    reduce(sum, cubist::ReduceOp::sum);
    auto spent = spent_;
    reduce(spent, cubist::ReduceOp::sum);
    const auto share = [&](std::size_t i) { return tells_shares_ ? spent[i] / spent[4] : 0; };
    return {Times{times}, median(communication) / world_->size(),  most[0], sum[0] / world_->size(),
            most[1],      {share(0), share(1), share(2), share(3)}};
  }

 private:
  using Here = Site<typename World::Engine>;

  template <class F>
  void measure(bool counts, F f, int calls)
  {
    f();
    world_->barrier();
    cubist::Sent sent;
    const auto run = [&] {
      Here::reset_stopwatches();
      auto& ledger = world_->ledger() = {.tells_waiting = tells_shares_ && Here::tells_waiting};
      return seconds([&] {
        f();
        sent = ledger.sent;
        for (int i = 1; i < calls; ++i) f();
        world_->barrier();
      });
    };
    double time_without = 0;
    if constexpr (Here::stopwatches_take_time)
    {
      Here::run_stopwatches(false);
      time_without = run();
      Here::run_stopwatches(true);
    }
    const EngineTimes before = EngineTimes::here();
    const double time = run();
    Here::read_stopwatches();
    if (!counts) return;
    const auto& ledger = world_->ledger();
    sent_ = sent;
    times_.push_back((Here::stopwatches_take_time ? time_without : time) / calls);
    communication_.push_back(ledger.seconds / calls);
    const EngineTimes& engine = EngineTimes::here();
    const double busy = ledger.tells_waiting ? ledger.busy : ledger.seconds;
    const std::array spent{engine.gemm - before.gemm, engine.elementwise - before.elementwise, busy,
                           ledger.seconds - busy, time};
    for (std::size_t i = 0; i < spent.size(); ++i) spent_[i] += spent[i];
  }

  template <class Numbers>
  void reduce(Numbers& numbers, cubist::ReduceOp op) const
  {
    cubist::with_staging_buffer(typename World::Engine{}, std::span<double>{numbers},
                                [&](auto there) { world_->all_reduce(there, op); });
  }

  World* world_;
  bool tells_shares_;
  cubist::Sent sent_;
  std::vector<double> times_;
  std::vector<double> communication_;
  std::array<double, 5> spent_{};  // gemm, element-wise, communication, waiting, all
};

/// Records one call of f on all ranks, after a call that fills the caches, if a trace is requested.
/// @param file  for the trace; empty: none is requested
/// @param pause  in force since the launch
template <class World, class F>
void trace_once(World& world, const std::string& file, std::optional<cubist::TracePause>& pause,
                F f)
{
  if (file.empty()) return;
  f();
  world.barrier();
  pause.reset();
  f();
  pause.emplace();
}

/// Records calls of f on all ranks for a breakdown: first a part of empty events, then each call as
/// a part "step".
/// @param pause  in force since the launch
/// @returns what the cores did in one call
template <class B, class World, class F>
CoreTimes trace_steps(World& world, int calls, std::optional<cubist::TracePause>& pause, F f)
{
  const typename World::Engine engine;
  pause.reset();
  {
    constexpr int empty_events = 500;
    const cubist::Span cost{engine, {cost_part}};
    for (int i = 0; i < empty_events; ++i) const cubist::Span nothing{engine, {"nothing"}};
  }
  pause.emplace();
  f();
  CoreTimes all;
  for (int i = 0; i < calls; ++i)
  {
    world.barrier();
    const CoreTimes before = core_times();
    pause.reset();
    {
      const cubist::Span step{engine, {step_part}};
      f();
      world.barrier();
    }
    pause.emplace();
    all += core_times().since(before);
  }
  // Each process counts once; ranks that are threads share one.
  constexpr bool one_process = std::same_as<B, cubist::Threads>;
  std::array job{one_process ? all.job / world.size() : all.job};
  cubist::with_staging_buffer(engine, std::span<double>{job},
                              [&](auto there) { world.all_reduce(there); });
  return {all.idle / calls, all.busy / calls, job[0] / calls};
}

/// Runs f on rank 0, with BLAS on all cores or on its GPU, while the other ranks sleep.
template <class World, class F>
void alone(World& world, F f)
{
  world.barrier();
  if (world.rank() == 0)
  {
    const typename Site<typename World::Engine>::Whole machine;
    f();
  }
  world.barrier();
}

/// Runs f on rank 0 alone, once and then `calls` times, and appends the seconds of one of these to
/// `times` if it counts.
template <class World, class F>
void alone(World& world, std::vector<double>& times, bool counts, F f, int calls = 1)
{
  using Here = Site<typename World::Engine>;
  alone(world, [&] {
    f();
    Here::finish();
    const double time = seconds([&] {
      for (int i = 0; i < calls; ++i) f();
      Here::finish();
    });
    if (counts) times.push_back(time / calls);
  });
}

/// Sets each rank's number of BLAS threads until the end of the scope; 0 leaves it as it is. Ranks
/// that are threads share one number, which rank 0 sets.
template <class B>
class ThreadsPerRank
{
 public:
  template <class World>
  ThreadsPerRank(World& world, int threads)
  {
    constexpr bool one_process = std::same_as<B, cubist::Threads>;
    if (threads > 0 && (!one_process || world.rank() == 0)) blas_.emplace(threads);
    world.barrier();
  }

 private:
  std::optional<cubist::BlasThreads> blas_;
};

}  // namespace bench
