// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The scheduler of ranks that are threads of one process. It parks waiting threads so that they do
// not burn a core, propagates failures to all ranks, and detects deadlocks.
//
// A rank that waits first yields its core a few times (core_yield.hpp), and is then parked: it
// sleeps in a futex that 32 ranks share, so that one kernel call wakes all of them that are
// notified. It yields for at least as long as waking a thread takes: a rank that has its core to
// itself yields in no time, and ranks with equal work mostly wait for less.
//
// `running_` counts the ranks that are neither parked nor finished: a rank that parks decrements
// it, and a rank that notifies a parked one increments it before it can park itself. So the count
// reaches zero only when every live rank is parked and no rank is left to notify one: a deadlock,
// detected at once and without a time-out.
//
// A time limit ends waits that are not deadlocks, such as a wait for a rank that computes for ever.
// A rank that has waited for that long increments the count, as a notifying rank would, and fails.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cubist/comm/group/failure.hpp"
#include "cubist/comm/threads/core_yield.hpp"
#include "cubist/comm/threads/rank_cores.hpp"
#include "cubist/comm/threads/rank_state.hpp"
#include "cubist/comm/wait_time.hpp"
#include "cubist/core/compiled.hpp"
#include "cubist/core/error.hpp"
#include "cubist/memory/futex_event.hpp"

namespace cubist::CUBIST_ABI::detail
{

class ThreadScheduler
{
 public:
  using Failure = GroupFailure;
  using Limit = std::optional<std::chrono::milliseconds>;

  /// @param limit how long a rank may wait for others
  explicit ThreadScheduler(int ranks, Limit limit = {})
      : limit_{limit},
        ranks_{static_cast<std::size_t>(ranks)},
        states_{std::make_unique<RankState[]>(ranks_)},
        wakes_{std::make_unique<FutexEvent[]>(ranks_ / per_event + 1)},
        unfinished_{ranks_},
        running_{ranks}
  {
    for (std::size_t r = 0; r < ranks_; ++r)
    {
      states_[r].outstanding.reserve(32);
      states_[r].to_notify.reserve(4 * std::min<std::size_t>(ranks_, 64));
    }
  }

  /// Adds a pending call, which every wait of `rank` advances from now on.
  void add(int rank, Waiter& waiter) { state(rank).outstanding.push_back(&waiter); }

  void remove(int rank, Waiter& waiter) { std::erase(state(rank).outstanding, &waiter); }

  /// Advances all pending calls of `rank`; returns whether `waiter` is complete.
  /// @throws what `raise` throws, once a rank has failed
  bool test(int rank, Waiter& waiter);

  /// @throws what `raise` throws, TimeLimitError
  void wait(int rank, Waiter& waiter);
  /// Advances `waiter` until `ready()`.
  template <class Ready>
  void wait(int rank, Waiter& waiter, Ready ready)
  {
    const auto end = this->end();
    for (test(rank, waiter); !ready(); test(rank, waiter)) park(rank, waiter, end);
  }

  /// Wakes ranks after something has happened that they may wait for.
  void notify(std::span<const int> ranks);
  void notify(int rank) { notify({&rank, 1}); }

  /// Moves `rank`, a worker that begins to compute, to another core if that has fewer of the
  /// workers (rank_cores.hpp). Where other processes compute, too, Linux chooses the cores better.
  void spread(int rank, std::span<const int> ranks, int workers)
  {
    cores_.spread(rank, ranks, workers, yield_.is_paused());
  }

  /// RAII: notifies ranks at the end of its scope. By then the lock that the woken ranks need,
  /// which is taken inside the scope, is released.
  class DeferredNotify
  {
   public:
    DeferredNotify(ThreadScheduler& scheduler, int rank)
        : scheduler_{scheduler},
          ranks_{scheduler.state(rank).to_notify}
    {
    }
    DeferredNotify(DeferredNotify&&) = delete;
    ~DeferredNotify()
    {
      scheduler_.notify(ranks_);
      ranks_.clear();
    }
    // The notifying rank is notified, too, because one of its calls may complete another that it
    // has already advanced.
    void add(int rank) { ranks_.push_back(rank); }

   private:
    ThreadScheduler& scheduler_;
    std::vector<int>& ranks_;
  };

  /// Makes all ranks fail, in their current wait or at their next call. Only the first failure
  /// counts. Returns whether this is the first.
  bool fail(Failure failure, std::string message);

  /// Throws the error of a failure once `fail` has been called (comm/group/failure.hpp).
  void raise() const { raise_failure(failure_.load(), message_); }

  /// Records that the body of `rank` has returned or thrown.
  void finish(int rank);

  /// Waits until all ranks are finished, or for `grace` after a failure. Returns the message of the
  /// failure, and the ranks that are not finished.
  [[nodiscard]] std::pair<std::string, std::vector<int>>
  stragglers(std::chrono::milliseconds grace);

 private:
  using Clock = std::chrono::steady_clock;
  using End = Clock::time_point;

  /// As long as waking a thread takes.
  static constexpr std::chrono::microseconds least_yield{20};
  /// How many ranks sleep in one futex.
  static constexpr std::size_t per_event = 32;
  [[nodiscard]] FutexEvent& wake(int rank)
  {
    return wakes_[static_cast<std::size_t>(rank) / per_event];
  }
  [[nodiscard]] static FutexEvent::Mask bit(int rank)
  {
    return FutexEvent::Mask{1} << (static_cast<std::size_t>(rank) % per_event);
  }

  RankState& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] End end() const { return limit_ ? Clock::now() + *limit_ : End::max(); }

  /// Yields the core of `rank`, then parks it; returns when the rank is notified.
  /// @throws TimeLimitError if it is not notified before the end
  void park(int rank, const Waiter& waiter, End end);

  /// Marks a rank that was notified as running.
  void resume(RankState& s)
  {
    const std::lock_guard no_rank_reads_what_it_waits_for{s.mutex};
    s.flag.exchange(RankFlag::running);
  }

  /// Counts a parked rank as running. Returns false if the count is zero, because then a deadlock
  /// is being reported.
  bool count_as_running();

  /// Throws in a rank that is parked but counted as running, which ends its wait. Returns if the
  /// rank has been notified in the meantime.
  void exceed_limit(int rank, const Waiter& waiter);

  /// Describes what another rank does; that rank may be running.
  [[nodiscard]] std::string activity(int rank);

  /// Reports a deadlock. No rank is running: all are parked or finished, so their states do not
  /// change.
  void report_deadlock();

  Limit limit_;
  std::size_t ranks_;
  std::unique_ptr<RankState[]> states_;
  std::unique_ptr<FutexEvent[]> wakes_;
  RankCores cores_{ranks_};
  CoreYield yield_{static_cast<int>(std::thread::hardware_concurrency())};
  std::size_t unfinished_;
  std::condition_variable changed_;
  std::atomic<int> running_;
  std::mutex mutex_;
  std::atomic<Failure> failure_{Failure::none};
  std::string message_;
};

}  // namespace cubist::CUBIST_ABI::detail

#include CUBIST_BODY("cubist/comm/threads/scheduler_body.hpp")
