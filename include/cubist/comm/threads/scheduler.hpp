// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ranks of one process: how a thread waits for others without burning a core, how it learns
// that one of them failed, and how all of them learn that nobody can go on.
//
// A rank that waits parks. `running_` counts the ranks that are neither parked nor finished:
// whoever parks takes itself off, whoever wakes a parked rank puts it back on before it can park
// itself. So the count reaches zero only when every live rank is parked and nobody is left to wake
// one: a deadlock, found at once and never by a time-out.
//
// A time limit is for what is no deadlock: ranks that wait for one that computes for ever. A rank
// that has waited for so long puts itself back on the count, as a waker would, and fails.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// Something that one rank waits for.
class Waiter
{
 public:
  /// Does what can be done now, without waiting; true when nothing is left to do.
  virtual bool advance() = 0;
  /// "all_reduce of 4 double on ranks {0, 1}, which rank 1 has not called".
  [[nodiscard]] virtual std::string describe() const = 0;
  /// The ranks whose turn it is to do something for it.
  [[nodiscard]] virtual std::vector<int> awaited() const { return {}; }

 protected:
  ~Waiter() = default;
};

class ThreadScheduler
{
 public:
  enum class Failure
  {
    none,
    peer_failed,
    mismatch,
    deadlock,
    ended
  };
  using Limit = std::optional<std::chrono::milliseconds>;

  /// @param limit how long a rank may wait for others
  explicit ThreadScheduler(int ranks, Limit limit = {})
      : limit_{limit}, ranks_{static_cast<std::size_t>(ranks)},
        states_{std::make_unique<RankState[]>(ranks_)}, unfinished_{ranks_}, running_{ranks}
  {
    for (std::size_t r = 0; r < ranks_; ++r)
    {
      states_[r].outstanding.reserve(32);
      states_[r].wakes.reserve(4 * std::min<std::size_t>(ranks_, 64));
    }
  }

  /// From now on every wait of `rank` helps this waiter on, too.
  void add(int rank, Waiter& waiter) { state(rank).outstanding.push_back(&waiter); }

  void remove(int rank, Waiter& waiter) { std::erase(state(rank).outstanding, &waiter); }

  /// Helps everything that `rank` has under way on, and says whether `waiter` is complete.
  /// @throws what `raise` throws, once a rank has failed
  bool test(int rank, Waiter& waiter)
  {
    raise();
    auto& outstanding = state(rank).outstanding;
    for (std::size_t i = 0; i < outstanding.size();)
      if (outstanding[i]->advance())
        outstanding.erase(outstanding.begin() + static_cast<std::ptrdiff_t>(i));
      else
        ++i;
    return std::find(outstanding.begin(), outstanding.end(), &waiter) == outstanding.end();
  }

  /// @throws what `raise` throws, TimeLimitError
  void wait(int rank, Waiter& waiter)
  {
    const auto end = this->end();
    while (!test(rank, waiter)) park(rank, waiter, end);
  }
  /// Waits until `waiter` has come so far that `ready()`.
  template <class Ready>
  void wait(int rank, Waiter& waiter, Ready ready)
  {
    const auto end = this->end();
    for (test(rank, waiter); !ready(); test(rank, waiter)) park(rank, waiter, end);
  }

  /// Tells `rank` that something it may wait for has happened.
  void notify(int rank)
  {
    // Counted before it is woken: a rank that was seen parked may run, and park again, at once.
    auto& s = state(rank);
    running_.fetch_add(1);
    if (s.flag.exchange(Flag::notified) != Flag::parked)
    {
      running_.fetch_sub(1);
      return;
    }
    {
      const std::lock_guard not_between_look_and_sleep{s.mutex};
    }
    s.wake.notify_one();
  }

  /// Notifies ranks at the end of its scope: behind the lock that is held inside, which the woken
  /// ones will want.
  class Wakes
  {
   public:
    Wakes(ThreadScheduler& world, int waker) : world_{world}, ranks_{world.state(waker).wakes} {}
    Wakes(const Wakes&) = delete;
    Wakes& operator=(const Wakes&) = delete;
    ~Wakes()
    {
      for (const int rank : ranks_) world_.notify(rank);
      ranks_.clear();
    }
    // The waker, too: one of its calls may complete another that it has looked at already.
    void add(int rank) { ranks_.push_back(rank); }

   private:
    ThreadScheduler& world_;
    std::vector<int>& ranks_;
  };

  /// Releases every rank from what it waits for, unless that has happened already: the first
  /// failure is the one that is reported.
  bool fail(Failure failure, std::string message)
  {
    {
      const std::lock_guard lock{mutex_};
      if (failure_.load() != Failure::none) return false;
      message_ = std::move(message);
      failure_.store(failure);
    }
    changed_.notify_all();
    for (std::size_t r = 0; r < ranks_; ++r) notify(static_cast<int>(r));
    return true;
  }

  /// @throws PeerFailed, CollectiveMismatch, DeadlockError or, once the ranks are gone,
  /// CommunicationError after `fail` was called
  void raise() const
  {
    switch (failure_.load())
    {
    case Failure::none:
      return;
    case Failure::peer_failed:
      throw PeerFailed{message_};
    case Failure::mismatch:
      throw CollectiveMismatch{message_};
    case Failure::deadlock:
      throw DeadlockError{message_};
    case Failure::ended:
      throw CommunicationError{message_};
    }
  }

  /// The body of `rank` has returned or thrown.
  void finish(int rank)
  {
    {
      const std::lock_guard lock{mutex_};
      state(rank).finished = true;
      --unfinished_;
    }
    changed_.notify_all();
    if (running_.fetch_sub(1) == 1) report_deadlock();
  }

  /// Returns when all ranks are finished, or a while after a failure: what failed, and who is not
  /// finished yet.
  [[nodiscard]] std::pair<std::string, std::vector<int>>
  stragglers(std::chrono::milliseconds a_while)
  {
    const auto all_finished = [this] { return unfinished_ == 0; };
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return all_finished() || failure_.load() != Failure::none; });
    changed_.wait_for(lock, a_while, all_finished);
    std::vector<int> late;
    for (std::size_t r = 0; r < ranks_; ++r)
      if (!states_[r].finished) late.push_back(static_cast<int>(r));
    return {message_, late};
  }

 private:
  using Clock = std::chrono::steady_clock;
  using End = std::optional<Clock::time_point>;

  enum class Flag : int
  {
    running,
    notified,
    parked
  };

  struct alignas(64) RankState
  {
    std::atomic<Flag> flag{Flag::running};
    // Not flag.wait(): it yields before it sleeps, and a yield costs a whole time slice of any
    // other busy process, hundreds of times the wait itself.
    std::mutex mutex;
    std::condition_variable wake;
    std::vector<Waiter*> outstanding;
    std::vector<int> wakes;
    const Waiter* waits_for = nullptr;
    bool finished = false;
  };

  RankState& state(int rank) { return states_[static_cast<std::size_t>(rank)]; }

  [[nodiscard]] End end() const
  {
    if (!limit_) return {};
    return Clock::now() + *limit_;
  }

  /// @throws TimeLimitError if it is not woken before the end
  void park(int rank, const Waiter& waiter, const End& end)
  {
    auto& s = state(rank);
    s.waits_for = &waiter;
    auto expected = Flag::running;
    if (s.flag.compare_exchange_strong(expected, Flag::parked))
    {
      if (running_.fetch_sub(1) == 1) report_deadlock();
      std::unique_lock lock{s.mutex};
      const auto woken = [&] { return s.flag.load() != Flag::parked; };
      if (end && !s.wake.wait_until(lock, *end, woken) && take_up())
      {
        lock.unlock();
        return exceed_limit(rank, waiter);
      }
      s.wake.wait(lock, woken);
    }
    s.flag.exchange(Flag::running);
  }

  /// Puts a parked rank back on the count, unless that is zero: then a deadlock is being reported.
  bool take_up()
  {
    int running = running_.load();
    while (running > 0)
      if (running_.compare_exchange_weak(running, running + 1)) return true;
    return false;
  }

  /// The end of a wait by a rank that is parked, but counted; returns if it is woken meanwhile.
  void exceed_limit(int rank, const Waiter& waiter)
  {
    std::string message = "waited for " + std::to_string(limit_->count()) + " ms in " +
                          waiter.describe() + ", longer than the time limit allows";
    for (const int other : waiter.awaited())
      message += "; rank " + std::to_string(other) + " " + whereabouts(other);
    message += "; mend what keeps them, or give launch a longer time limit";
    auto& s = state(rank);
    {
      const std::lock_guard nobody_looks_at_it{s.mutex};
      if (s.flag.exchange(Flag::running) != Flag::parked)
      {
        running_.fetch_sub(1);  // whoever woke it has put it on the count, too
        return;
      }
    }
    raise();
    if (!fail(Failure::peer_failed, "rank " + std::to_string(rank) + " " + message)) raise();
    throw TimeLimitError{message};
  }

  /// What another rank does, which may be running.
  [[nodiscard]] std::string whereabouts(int rank)
  {
    {
      const std::lock_guard lock{mutex_};
      if (state(rank).finished) return "has returned";
    }
    auto& s = state(rank);
    const std::lock_guard until_then_it_stays_parked{s.mutex};
    return s.flag.load() == Flag::parked ? "waits in " + s.waits_for->describe() : "is not waiting";
  }

  // Called when no rank is running: all of them are parked or finished, so their states stand
  // still.
  void report_deadlock()
  {
    if (failure_.load() != Failure::none) return;  // the ranks are being released already
    constexpr std::size_t most = 16;
    std::string waits;
    std::string finished;
    std::size_t parked = 0;
    for (std::size_t r = 0; r < ranks_; ++r)
    {
      const auto& s = states_[r];
      if (s.finished)
      {
        finished += (finished.empty() ? "" : ", ") + std::to_string(r);
        continue;
      }
      if (++parked <= most)
        waits += "; rank " + std::to_string(r) + " waits in " + s.waits_for->describe();
    }
    if (parked == 0) return;
    if (parked > most) waits += "; and " + std::to_string(parked - most) + " more ranks wait";
    if (!finished.empty()) waits += "; ranks {" + finished + "} have returned";
    fail(Failure::deadlock, "every live rank waits for another, so none can go on" + waits +
                                "; let all ranks of a communicator make the same calls in the same "
                                "order, and match every send with a receive");
  }

  Limit limit_;
  std::size_t ranks_;
  std::unique_ptr<RankState[]> states_;
  std::size_t unfinished_;
  std::condition_variable changed_;
  std::atomic<int> running_;
  std::mutex mutex_;
  std::atomic<Failure> failure_{Failure::none};
  std::string message_;
};

}  // namespace cubist::detail
