// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Advances the calls of one MPI process, on all its communicators.
//
// MPI transfers data only while a thread calls it. A rank that waits advances all of its calls;
// while it computes, a helper thread advances those between nodes. The helper sleeps until one
// starts that needs it: where ranks share cores, it competes with a rank that waits at once for the
// core and for the lock. A rank that waits only for shared-memory barriers sleeps until it is
// notified. One lock serialises all MPI calls. The helper needs MPI_THREAD_MULTIPLE; without it,
// calls advance in `wait` and `test` only.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include <mpi.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/pending.hpp"
#include "cubist/comm/mpi/returned_ranks.hpp"
#include "cubist/comm/mpi/transport/shared_barrier.hpp"
#include "cubist/comm/wait_time.hpp"
#include "cubist/core/error.hpp"
#include "cubist/memory/futex_event.hpp"

namespace cubist::CUBIST_ABI::detail
{

class MpiProgress
{
 public:
  /// @param control a communicator of all ranks of the job that carries nothing else
  /// @param with_helper whether to start the helper thread
  /// @param limit how long a rank may wait for others
  /// @param in_flight for how many calls memory is allocated at the start
  MpiProgress(MPI_Comm control, bool with_helper,
              std::optional<std::chrono::milliseconds> limit = {}, std::size_t in_flight = 32)
      : limit_{limit},
        failures_{control},
        returned_{control},
        calls_{in_flight}
  {
    if (with_helper)
      helper_ = std::jthread{[this](const std::stop_token& stop) { run_helper(stop); }};
  }
  MpiProgress(MpiProgress&&) = delete;
  ~MpiProgress()
  {
    helper_.request_stop();
    {
      const std::lock_guard lock{mutex_};  // the helper is not between its check and its wait
    }
    wake_.notify_all();
  }

  [[nodiscard]] int rank() const { return failures_.rank(); }
  [[nodiscard]] int size() const { return failures_.size(); }
  [[nodiscard]] MPI_Comm comm() const { return failures_.comm(); }
  [[nodiscard]] bool has_limit() const { return limit_.has_value(); }

  /// The counts of this rank's calls on a communicator, valid for the lifetime of this object. The
  /// helper does not use them.
  [[nodiscard]] CallCounts& call_counts(std::uint64_t communicator)
  {
    return returned_.counts(communicator);
  }

  /// Calls `f`, which blocks in MPI. It cannot be interrupted, so the job is aborted if it takes
  /// longer than the limit.
  /// @throws PeerFailed if a rank has failed before
  template <class F>
  auto call_blocking_mpi(const std::string& what, F f)
  {
    if (with_failures([](MpiFailures& failures) { return failures.poll(); }))
      throw PeerFailed{failures_.message()};
    std::optional<AbortTimer> timer;
    if (limit_)
      timer.emplace(*limit_,
                    "rank " + std::to_string(rank()) + ": " + timeout_message(*limit_, what));
    const std::lock_guard lock{mutex_};
    return f();
  }

  /// Advances all calls, because other ranks may wait for messages that this one forwards.
  void advance()
  {
    const std::lock_guard lock{mutex_};
    advance_all();
  }

  /// Starts a call, which lasts until `release`.
  /// @param number the call's number in the communicator's `call_counts`; 0 if it is not counted
  /// @param needs_helper whether peers may wait for this rank to advance the call
  /// @throws PeerFailed if a rank has failed
  MpiPendingCall& start(const MpiContext& context, int tag, bool remote, const ErasedCall& call,
                        std::int64_t number = 0, bool needs_helper = true)
  {
    const std::lock_guard lock{mutex_};
    if (failures_.any()) throw PeerFailed{failures_.message()};
    auto& pending =
        calls_.add(remote, number, [&](MpiCall& mine) { mine.post(context, tag, call); });
    if (pending.active && remote && needs_helper) wake_.notify_one();
    return pending;
  }

  /// Returns when the call is complete.
  /// @throws the error of the call, PeerFailed if a rank has failed, CollectiveMismatch,
  /// DeadlockError, TimeLimitError
  void wait(MpiPendingCall& pending)
  {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    Backoff backoff;
    Backoff::Clock::duration next_diagnosis = 50ms;
    FutexEvent* const event = FlagSlotHandle::process_event();
    while (pending.active)
    {
      const auto seen = event != nullptr ? event->count() : 0;
      advance_all();
      if (!pending.active) break;
      if (failures_.any()) throw PeerFailed{failures_.message()};
      waiting_ = true;
      const bool is_notified = calls_.all_use_shared_barrier();
      lock.unlock();
      // Failure notifications do not end the sleep, so it is short.
      const auto waited = [&] {
        const WaitTimer timer;
        if (!is_notified) return backoff.pause();
        return backoff.pause(
            [&](auto longest) { event->wait(seen, FutexEvent::Clock::now() + longest); }, 1ms,
            10ms);
      }();
      lock.lock();
      waiting_ = false;
      if (waited < next_diagnosis && !(limit_ && waited >= *limit_)) continue;
      next_diagnosis = waited + std::min<Backoff::Clock::duration>(waited, 1s);
      diagnose(pending, waited);
    }
    if (pending.error) std::rethrow_exception(std::exchange(pending.error, nullptr));
  }

  /// Returns whether the call is complete.
  /// @throws the error of the call, PeerFailed if a rank has failed
  bool test(MpiPendingCall& pending)
  {
    const std::lock_guard lock{mutex_};
    advance_all();
    if (pending.active && failures_.any()) throw PeerFailed{failures_.message()};
    if (pending.error) std::rethrow_exception(std::exchange(pending.error, nullptr));
    return !pending.active;
  }

  /// Ends the use of a call. An incomplete call aborts the job, unless an exception is in flight.
  void release(MpiPendingCall& pending)
  {
    const std::lock_guard lock{mutex_};
    if (pending.active && std::uncaught_exceptions() == 0)
    {
      advance_all();
      if (pending.active && !failures_.is_broken())
        abort_job(
            "rank " + std::to_string(rank()) + " dropped the request of its " +
            pending.call.describe() +
            " before it was complete, so other ranks would wait for it forever; wait for every "
            "request");
    }
    if (pending.active || pending.failed) abandon(pending);
    calls_.release(pending);
  }

  /// Runs f(failures) while no other thread calls MPI.
  template <class F>
  auto with_failures(F f)
  {
    const std::lock_guard lock{mutex_};
    return f(failures_);
  }
  /// Runs f(returned_ranks, failures) while no other thread calls MPI.
  template <class F>
  auto with_returned_ranks(F f)
  {
    const std::lock_guard lock{mutex_};
    return f(returned_, failures_);
  }

 private:
  /// Finds out why a call takes so long.
  /// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError
  void diagnose(MpiPendingCall& pending, Backoff::Clock::duration waited)
  {
    using namespace std::chrono_literals;
    if (failures_.poll()) throw PeerFailed{failures_.message()};
    try
    {
      advance_all();
      if (!pending.active) return;
      pending.call.check_for_mismatch();
      // All calls advance, because other ranks may wait for data that one of them forwards.
      if (waited >= 400ms)
        for (auto* const active : calls_.active())
          returned_.check(active->call, active->number, rank());
      if (limit_ && waited >= *limit_)
        throw TimeLimitError{
            timeout_message(*limit_, pending.call.text(), pending.call.describe_pending())};
    }
    catch (const CommunicationError& e)
    {
      // Peers get this error before they run into their own time limits.
      failures_.broadcast_error(e.what());
      throw;
    }
  }

  /// Advances all calls, unless a rank has failed: then the buffers of its calls may be freed.
  void advance_all()
  {
    // A poll calls MPI, too, so only every 16th call of this function polls.
    if (failures_.any() || (++advances_ % 16 == 0 && failures_.poll())) return;
    calls_.advance_all();
  }

  /// Ends an incomplete call, whose buffers are about to be freed.
  void abandon(MpiPendingCall& pending)
  {
    failures_.mark_broken();
    pending.call.cancel();
    if ((pending.call.count_pending() > 0 || pending.call.uses_shared_barrier()) &&
        !failures_.any())
      failures_.broadcast("rank " + std::to_string(rank()) + " abandoned its " +
                              pending.call.describe() +
                              ", so the data of other ranks cannot be complete; look for the error "
                              "of that rank",
                          MpiFailures::Kind::abandoned_call);
    calls_.drain(pending);
  }

  void run_helper(const std::stop_token& stop)
  {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    while (!stop.stop_requested())
    {
      if (!calls_.any_remote())
        wake_.wait(lock);
      else if (waiting_)
        wake_.wait_for(lock, 1ms);
      else
      {
        advance_all();
        lock.unlock();
        std::this_thread::sleep_for(150us);
        lock.lock();
      }
    }
  }

  std::optional<std::chrono::milliseconds> limit_;
  MpiFailures failures_;
  MpiReturnedRanks returned_;
  std::mutex mutex_;
  std::condition_variable wake_;  // wakes the helper
  bool waiting_ = false;          // the rank waits, and advances all calls
  unsigned advances_ = 0;
  MpiPendingCalls calls_;
  std::jthread helper_;  // ends before the other members
};

}  // namespace cubist::CUBIST_ABI::detail
