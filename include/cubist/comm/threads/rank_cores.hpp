// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The cores on which ranks run. Where ranks share cores, those that compute spread over them.
//
// Linux seldom moves a rank away from a core whose ranks yield to each other (core_yield.hpp), so
// all ranks may stay on one core while another is idle. Each rank records where it runs. A rank
// that begins to compute, and finds more than their share of the computing ranks on its core, moves
// to the core that has the fewest. A move takes about 30 us, so a rank looks once in a millisecond.
// Linux seldom undoes a move, so hundreds of products gain from it.
//
// A rank that moves to a core where another process computes may wait there for a time slice. So
// ranks look less often while other processes compute, and stay where they are for a while after a
// slow move.

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>

#include <sched.h>

#include "cubist/comm/run_on_core.hpp"
#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// How many of some ranks are on each core.
using RanksOnCores = std::array<int, CPU_SETSIZE>;

/// Returns the core to which a rank on core `mine` should move. Returns nothing if the rank should
/// stay, or if there are fewer ranks than cores: then other processes may use the cores that have
/// no rank.
/// @param count the number of ranks  @param on where they are; this rank is one of them
/// @param allowed the cores on which this rank may run
[[nodiscard]] inline std::optional<int> emptier_core(int mine, int count, const RanksOnCores& on,
                                                     const cpu_set_t& allowed)
{
  const auto ranks_on = [&on](int core) { return on[static_cast<std::size_t>(core)]; };
  const int cores = CPU_COUNT(&allowed);
  const int share = cores > 0 ? (count + cores - 1) / cores : count;
  if (count < cores || ranks_on(mine) <= share) return {};
  int fewest = mine;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<unsigned>(core), &allowed) && ranks_on(core) < ranks_on(fewest))
      fewest = core;
  if (ranks_on(fewest) >= share) return {};
  return fewest;
}

/// Functions that take a rank are called by the thread of this rank.
class RankCores
{
 public:
  using Clock = std::chrono::steady_clock;

  explicit RankCores(std::size_t ranks)
      : places_{std::make_unique<Place[]>(ranks)},
        ranks_{ranks}
  {
  }

  /// Records that a rank waits from now on.
  void wait(int rank) { set(rank, ~this_core()); }
  /// Records that a rank computes from now on.
  void compute(int rank) { set(rank, this_core()); }

  /// The number of cores on which ranks compute.
  [[nodiscard]] int busy() const
  {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    for (std::size_t r = 0; r < ranks_; ++r)
      if (const int core = place(r).core.load(relaxed); core >= 0 && core < unknown)
        CPU_SET(static_cast<unsigned>(core), &cores);
    return CPU_COUNT(&cores);
  }

  /// Moves a rank that begins to compute, if more than their share of the workers are on its core.
  /// Returns whether it moves.
  /// @param rank a worker
  /// @param ranks the ranks of a communicator; of `workers` workers, worker i is the one at place
  /// i * ranks.size() / workers
  /// @param others_compute whether other processes compute, too: then it looks less often
  bool spread(int rank, std::span<const int> ranks, int workers, bool others_compute = false)
  {
    const int mine = this_core();
    set(rank, mine);
    auto& next_look = place(static_cast<std::size_t>(rank)).next_look;
    const auto now = Clock::now();
    if (now < next_look || now.time_since_epoch().count() < stay_until_.load(relaxed)) return false;
    next_look = now + (others_compute ? 10 : 1) * between_looks;
    cpu_set_t allowed;
    if (mine == unknown || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
    const auto core = emptier_core(mine, workers, count(ranks, workers), allowed);
    if (!core) return false;
    const bool is_shared = computes_on(*core);
    set(rank, *core);  // the others see it before it arrives
    run_on_core(*core, allowed);
    const auto end = Clock::now();
    if (end - now > slow && (others_compute || !is_shared))
      stay_until_.store((end + pause).time_since_epoch().count(), relaxed);
    return true;
  }

 private:
  static constexpr auto relaxed = std::memory_order_relaxed;
  static constexpr int unknown = CPU_SETSIZE;
  static constexpr std::chrono::milliseconds between_looks{1};
  /// Longer than a move to an idle core, shorter than a time slice.
  static constexpr std::chrono::milliseconds slow{1};
  static constexpr std::chrono::milliseconds pause{250};

  /// On its own cache line.
  struct alignas(64) Place
  {
    std::atomic<int> core{unknown};  // where the rank computes, or ~core if it waits
    Clock::time_point next_look{};
  };

  [[nodiscard]] static int this_core()
  {
    const int core = sched_getcpu();
    return core >= 0 && core < unknown ? core : unknown;
  }
  [[nodiscard]] Place& place(std::size_t rank) const { return places_[rank]; }
  void set(int rank, int core) { place(static_cast<std::size_t>(rank)).core.store(core, relaxed); }

  [[nodiscard]] RanksOnCores count(std::span<const int> ranks, int workers) const
  {
    RanksOnCores on{};
    const auto all = static_cast<std::size_t>(workers);
    for (std::size_t i = 0; i < all; ++i)
    {
      const int rank = ranks[i * ranks.size() / all];
      const int core = place(static_cast<std::size_t>(rank)).core.load(relaxed);
      const int last = core < 0 ? ~core : core;
      if (last < unknown) ++on[static_cast<std::size_t>(last)];
    }
    return on;
  }

  /// Whether any rank computes on this core.
  [[nodiscard]] bool computes_on(int core) const
  {
    for (std::size_t r = 0; r < ranks_; ++r)
      if (place(r).core.load(relaxed) == core) return true;
    return false;
  }

  std::unique_ptr<Place[]> places_;
  std::size_t ranks_;
  std::atomic<Clock::rep> stay_until_{Clock::time_point::min().time_since_epoch().count()};
};

}  // namespace cubist::CUBIST_ABI::detail
