// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the communicators of one MPI process share: its calls under way, who moves them on, and how
// they end when a rank fails.
//
// MPI moves data only while someone calls it. A rank that waits does so itself, and for all its
// calls; while it computes, a thread beside it looks after the calls that cross nodes, so that they
// travel meanwhile. A rank that waits only for meetings (mpi/shared_barrier.hpp) sleeps until it is
// rung for. All calls of MPI are made under one lock. The thread needs MPI_THREAD_MULTIPLE, as the
// program may call MPI, too; without it calls move on only in `wait` and `test`.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cubist/comm/backoff.hpp"
#include "cubist/comm/mpi/call.hpp"
#include "cubist/comm/mpi/failure.hpp"
#include "cubist/comm/mpi/shared_barrier.hpp"
#include "cubist/core/error.hpp"
#include "cubist/memory/futex_event.hpp"

namespace cubist::detail
{

/// A call with what the world knows of it.
struct MpiMember
{
  MpiCall call;
  bool active = false;
  bool remote = false;
  bool failed = false;
  std::exception_ptr error;
};

class MpiProgress
{
 public:
  using Limit = std::optional<std::chrono::milliseconds>;

  /// @param control a communicator of all ranks of the job, for nothing but this
  /// @param limit how long a rank may wait for others
  MpiProgress(MPI_Comm control, bool look_after, Limit limit = {}) : limit_{limit}, news_{control}
  {
    // Calls under way at once; later ones find room made already.
    constexpr std::size_t at_once = 32;
    for (auto* all : {&spare_, &active_}) all->reserve(2 * at_once);
    for (std::size_t i = 0; i < at_once; ++i)
      spare_.push_back(members_.emplace_back(std::make_unique<MpiMember>()).get());
    if (look_after) helper_ = std::jthread{[this](const std::stop_token& stop) { help(stop); }};
  }
  MpiProgress(const MpiProgress&) = delete;
  MpiProgress& operator=(const MpiProgress&) = delete;
  ~MpiProgress()
  {
    if (helper_.joinable())
    {
      helper_.request_stop();
      {
        const std::lock_guard lock{mutex_};  // the helper is not between its question and its sleep
      }
      wake_.notify_all();
      helper_.join();
    }
  }

  [[nodiscard]] int rank() const { return news_.rank(); }
  [[nodiscard]] int size() const { return news_.size(); }
  /// All ranks of the job.
  [[nodiscard]] MPI_Comm comm() const { return news_.comm(); }
  [[nodiscard]] bool has_limit() const { return limit_.has_value(); }

  /// Calls MPI when no other thread does.
  template <class F>
  auto exclusively(F f)
  {
    const std::lock_guard lock{mutex_};
    return f();
  }

  /// The same for what blocks in MPI, and cannot be left: longer than the limit, it ends the job.
  /// @throws PeerFailed
  template <class F>
  auto exclusively(const std::string& what, F f)
  {
    if (exclusively([&] { return news_.look(); })) throw PeerFailed{news_.text()};
    if (!limit_) return exclusively(f);
    const std::jthread watch{[&](const std::stop_token& stop) {
      std::mutex mutex;
      std::condition_variable_any never;
      std::unique_lock lock{mutex};
      never.wait_for(lock, stop, *limit_, [] { return false; });
      if (!stop.stop_requested()) end_job("rank " + std::to_string(rank()) + ": " + late(what, ""));
    }};
    return exclusively(f);
  }

  /// Puts a call under way; it stays so until `leave`.
  /// @throws PeerFailed if a rank failed meanwhile
  template <Element T>
  MpiMember& start(const MpiContext& place, int tag, bool remote, const Call<T>& call)
  {
    const std::lock_guard lock{mutex_};
    if (news_.bad()) throw PeerFailed{news_.text()};
    auto& member = spare();
    member.failed = false;
    member.error = nullptr;
    member.remote = remote;
    member.active = true;
    active_.push_back(&member);
    attempt(member, [&] {
      member.call.start(place, tag, call);
      return member.call.advance();
    });
    if (member.active && remote) wake_.notify_one();
    return member;
  }

  /// @throws what the call met, PeerFailed if a rank failed meanwhile, CollectiveMismatch,
  /// TimeLimitError
  void wait(MpiMember& member)
  {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    Backoff backoff;
    Backoff::Clock::duration suspicious = 50ms;
    FutexEvent* const bell = MySeat::bell();
    while (member.active)
    {
      const auto rings = bell != nullptr ? bell->rings() : 0;
      advance_all();
      if (!member.active) break;
      if (news_.bad()) throw PeerFailed{news_.text()};
      waiting_ = true;
      const bool rung_for = std::all_of(active_.begin(), active_.end(),
                                        [](const auto* m) { return m->call.meets(); });
      lock.unlock();
      // Now and then there may be news, for which nobody rings.
      const auto waited =
          rung_for ? backoff.pause([&](auto longest) { bell->sleep(rings, longest); }, 1ms, 10ms)
                   : backoff.pause();
      lock.lock();
      waiting_ = false;
      if (waited < suspicious && !(limit_ && waited >= *limit_)) continue;
      suspicious = 2 * waited;
      look_around(member, waited);
    }
    if (member.error) std::rethrow_exception(std::exchange(member.error, nullptr));
  }

  /// @throws what the call met, PeerFailed if a rank failed meanwhile
  bool test(MpiMember& member)
  {
    const std::lock_guard lock{mutex_};
    advance_all();
    if (member.active && news_.bad()) throw PeerFailed{news_.text()};
    if (member.error) std::rethrow_exception(std::exchange(member.error, nullptr));
    return !member.active;
  }

  /// The rank has no more to do with the call.
  void leave(MpiMember& member)
  {
    const std::lock_guard lock{mutex_};
    if (member.active && std::uncaught_exceptions() == 0)
    {
      advance_all();
      if (member.active && !news_.bad() && !broken_)
        end_job("rank " + std::to_string(rank()) + " dropped the request of its " +
                member.call.describe() +
                " before it was complete, so other ranks would wait for ever; wait for every "
                "request");
    }
    if (member.active || member.failed) give_up(member);
    spare_.push_back(&member);
  }

  /// Tells the other ranks, in wait or on their way to it, that this one failed.
  void spread(const std::string& message)
  {
    const std::lock_guard lock{mutex_};
    tell(message, MpiFailures::Of::error);
  }

  /// The error of the lowest rank that failed elsewhere, if it comes soon.
  [[nodiscard]] std::string news()
  {
    using namespace std::chrono_literals;
    const std::lock_guard lock{mutex_};
    for (Backoff backoff; !news_.look() || !news_.is_error(); backoff.pause())
      if (backoff.waited() > 1s) break;
    return news_.text();
  }
  /// Whether a rank below this one has told of a failure.
  [[nodiscard]] bool failed_below()
  {
    const std::lock_guard lock{mutex_};
    return news_.look() && news_.teller() < rank();
  }
  /// Whether messages may be under way that nobody will receive.
  [[nodiscard]] bool broken()
  {
    const std::lock_guard lock{mutex_};
    return broken_ || news_.bad();
  }

  /// The smallest `value` of all ranks, once all have come, or nothing after `limit`.
  [[nodiscard]] bool agree_on_smallest(int& value, std::chrono::steady_clock::duration limit)
  {
    mine_ = value;
    MPI_Request request = MPI_REQUEST_NULL;
    std::unique_lock lock{mutex_};
    check(MPI_Iallreduce(&mine_, &smallest_, 1, MPI_INT, MPI_MIN, news_.comm(), &request));
    Backoff backoff;
    for (;;)
    {
      int complete = 0;
      advance_all();  // others may need this rank to pass their messages on
      check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
      if (complete != 0) break;
      if (backoff.waited() > limit) return false;
      lock.unlock();
      backoff.pause();
      lock.lock();
    }
    value = smallest_;
    return true;
  }

  /// Prints the message, and ends the processes of all ranks.
  [[noreturn]] static void end_job(const std::string& message)
  {
    std::fflush(stdout);
    std::fprintf(stderr, "cubist: %s\n", message.c_str());
    std::fflush(stderr);
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
  }

 private:
  static void check(int code) { mpi_check(code, "MPI", "the control of the job"); }

  /// Why a call has taken so long.
  /// @throws PeerFailed, CollectiveMismatch, TimeLimitError
  void look_around(MpiMember& member, Backoff::Clock::duration waited)
  {
    if (news_.look()) throw PeerFailed{news_.text()};
    try
    {
      advance_all();
      if (!member.active) return;
      member.call.look_for_mismatch();
      if (limit_ && waited >= *limit_)
        throw TimeLimitError{late(member.call.text(), member.call.awaited())};
    }
    catch (const CommunicationError& e)
    {
      // Before their own limits end.
      tell("rank " + std::to_string(rank()) + " failed (" + e.what() +
               "), so what other ranks wait for cannot come; mend that rank's error",
           MpiFailures::Of::error);
      throw;
    }
  }

  [[nodiscard]] std::string late(const std::string& what, const std::string& for_whom) const
  {
    return "waited for " + std::to_string(limit_->count()) + " ms in " + what +
           ", longer than the time limit allows" + for_whom +
           "; mend what keeps them, or give launch a longer time limit";
  }

  void advance(MpiMember& member)
  {
    attempt(member, [&] { return member.call.advance(); });
  }

  template <class F>
  void attempt(MpiMember& member, F f)
  {
    try
    {
      if (f()) deactivate(member);
    }
    catch (...)
    {
      member.error = std::current_exception();
      member.failed = true;
      deactivate(member);
    }
  }

  /// Nothing begins any more once a rank has failed: its buffers may be gone.
  void advance_all()
  {
    // Each question after news is a call of MPI, too, so they are rare.
    if (news_.bad() || (++looks_ % 16 == 0 && news_.look())) return;
    for (std::size_t i = active_.size(); i-- > 0;) advance(*active_[i]);
  }

  void deactivate(MpiMember& member)
  {
    member.active = false;
    std::erase(active_, &member);
  }

  /// Ends a call whose buffers are about to go. Peers may be taking messages out of them, or may
  /// begin to until they hear of it; so this returns when nothing has moved for a while.
  void give_up(MpiMember& member)
  {
    using namespace std::chrono_literals;
    deactivate(member);
    broken_ = true;
    member.call.cancel();
    std::size_t before = member.call.under_way();
    if ((before > 0 || member.call.meets()) && !news_.bad())
      tell("rank " + std::to_string(rank()) + " left its " + member.call.describe() +
               ", so the data of other ranks cannot be complete; look for the error of that rank",
           MpiFailures::Of::leaving);
    for (Backoff backoff; before > 0 && backoff.waited() < 500ms; backoff.pause())
    {
      const std::size_t now = member.call.under_way();
      if (now < before) backoff = {};
      before = now;
    }
    member.call.forget();
  }

  void tell(const std::string& message, MpiFailures::Of of)
  {
    broken_ = true;
    news_.tell(message, of);
  }

  /// A call that is not in use; it keeps the room that it has made.
  MpiMember& spare()
  {
    if (spare_.empty())
    {
      members_.push_back(std::make_unique<MpiMember>());
      return *members_.back();
    }
    auto& member = *spare_.back();
    spare_.pop_back();
    return member;
  }

  void help(const std::stop_token& stop)
  {
    using namespace std::chrono_literals;
    std::unique_lock lock{mutex_};
    while (!stop.stop_requested())
    {
      const bool remote = std::any_of(active_.begin(), active_.end(),
                                      [](const auto* member) { return member->remote; });
      if (!remote || waiting_)
      {
        if (remote)
          wake_.wait_for(lock, 1ms);
        else
          wake_.wait(lock);
        continue;
      }
      advance_all();
      lock.unlock();
      std::this_thread::sleep_for(150us);
      lock.lock();
    }
  }

  Limit limit_;
  MpiFailures news_;
  bool broken_ = false;
  int mine_ = 0;
  int smallest_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool waiting_ = false;
  unsigned looks_ = 0;
  std::vector<std::unique_ptr<MpiMember>> members_;
  std::vector<MpiMember*> spare_;
  std::vector<MpiMember*> active_;
  std::jthread helper_;
};

}  // namespace cubist::detail
