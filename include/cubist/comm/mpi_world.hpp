// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What the communicators of one MPI process share: its calls under way, who moves them on, and the
// news of a rank that failed.
//
// MPI moves data only while someone calls it. A rank that waits does so itself, and for all its
// calls; while it computes, a thread beside it looks after the calls that cross nodes, so that they
// travel meanwhile. All calls of MPI are made under one lock. The thread needs MPI_THREAD_MULTIPLE,
// as the program may call MPI, too; without it calls move on only in `wait` and `test`.

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include "cubist/comm/mpi_call.hpp"
#include "cubist/core/error.hpp"

namespace cubist::detail
{

/// How long to leave the processor to others between two looks at what does not come: not at all at
/// first, later an eighth of the time waited so far. Ranks may be more than cores.
class Patience
{
 public:
  void pause()
  {
    using namespace std::chrono;
    if (++looks_ < 20) return std::this_thread::yield();
    const auto waited = steady_clock::now() - start_;
    if (waited < microseconds{200}) return std::this_thread::yield();
    std::this_thread::sleep_for(std::min<steady_clock::duration>(waited / 8, microseconds{500}));
  }
  [[nodiscard]] bool is_long() const { return looks_ > 20; }
  [[nodiscard]] auto waited() const { return std::chrono::steady_clock::now() - start_; }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int looks_ = 0;
};

/// A call with what the world knows of it.
struct MpiMember
{
  MpiCall call;
  bool active = false;
  bool remote = false;
  std::exception_ptr error;
};

class MpiWorld
{
 public:
  /// @param control a communicator of all ranks of the job, for nothing but this
  MpiWorld(MPI_Comm control, bool look_after) : control_{control}
  {
    MPI_Comm_rank(control, &rank_);
    MPI_Comm_size(control, &size_);
    check(MPI_Irecv(news_.data(), static_cast<int>(news_.size()), MPI_CHAR, MPI_ANY_SOURCE, 0,
                    control, &bad_news_));
    if (look_after) helper_ = std::jthread{[this](const std::stop_token& stop) { help(stop); }};
  }
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;
  ~MpiWorld()
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
    for (auto& member : members_) member->call.cancel();
    if (bad_news_ != MPI_REQUEST_NULL)
    {
      MPI_Cancel(&bad_news_);
      MPI_Request_free(&bad_news_);
    }
  }

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return size_; }

  /// Calls MPI when no other thread does.
  template <class F>
  auto exclusively(F f)
  {
    const std::lock_guard lock{mutex_};
    return f();
  }

  /// Puts a call under way; it stays so until `leave`.
  template <Element T>
  MpiMember& start(const MpiPlace& place, int tag, bool remote, const Call<T>& call)
  {
    const std::lock_guard lock{mutex_};
    auto& member = spare();
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

  /// @throws what the call met, PeerFailed if a rank failed meanwhile
  void wait(MpiMember& member)
  {
    std::unique_lock lock{mutex_};
    Patience patience;
    while (member.active)
    {
      advance_all();
      if (!member.active) break;
      if (patience.is_long() && failed_elsewhere()) throw PeerFailed{news_.data()};
      waiting_ = true;
      lock.unlock();
      patience.pause();
      lock.lock();
      waiting_ = false;
    }
    if (member.error) std::rethrow_exception(std::exchange(member.error, nullptr));
  }

  /// @throws what the call met, PeerFailed if a rank failed meanwhile
  bool test(MpiMember& member)
  {
    const std::lock_guard lock{mutex_};
    advance_all();
    if (member.active && failed_elsewhere()) throw PeerFailed{news_.data()};
    if (member.error) std::rethrow_exception(std::exchange(member.error, nullptr));
    return !member.active;
  }

  /// The rank has no more to do with the call.
  void leave(MpiMember& member)
  {
    const std::lock_guard lock{mutex_};
    if (member.active)
    {
      if (std::uncaught_exceptions() == 0) advance(member);
      if (member.active && std::uncaught_exceptions() == 0)
        end_job("rank " + std::to_string(rank_) + " dropped the request of a " +
                member.call.describe() +
                " before it was complete, so other ranks would wait for ever; wait for every "
                "request");
      if (member.active) deactivate(member);
      member.call.cancel();
    }
    spare_.push_back(&member);
  }

  /// Tells the other ranks, in wait or on their way to it, that this one failed.
  void spread(const std::string& message)
  {
    const std::lock_guard lock{mutex_};
    told_ = message.substr(0, news_.size() - 1);
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_)
      {
        MPI_Request sent = MPI_REQUEST_NULL;
        MPI_Isend(told_.c_str(), static_cast<int>(told_.size() + 1), MPI_CHAR, peer, 0, control_,
                  &sent);
        MPI_Request_free(&sent);
      }
  }

  /// What another rank told of its failure, or nothing.
  [[nodiscard]] std::string news()
  {
    const std::lock_guard lock{mutex_};
    return failed_elsewhere() ? news_.data() : "";
  }

  /// The smallest `value` of all ranks, once all have come, or nothing after `limit`.
  [[nodiscard]] bool agree_on_smallest(int& value, std::chrono::steady_clock::duration limit)
  {
    mine_ = value;
    MPI_Request request = MPI_REQUEST_NULL;
    std::unique_lock lock{mutex_};
    check(MPI_Iallreduce(&mine_, &smallest_, 1, MPI_INT, MPI_MIN, control_, &request));
    Patience patience;
    for (;;)
    {
      int complete = 0;
      advance_all();  // others may need this rank to pass their messages on
      check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE));
      if (complete != 0) break;
      if (patience.waited() > limit) return false;
      lock.unlock();
      patience.pause();
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
      deactivate(member);
      member.call.cancel();
    }
  }

  void advance_all()
  {
    for (std::size_t i = active_.size(); i-- > 0;) advance(*active_[i]);
  }

  void deactivate(MpiMember& member)
  {
    member.active = false;
    std::erase(active_, &member);
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

  [[nodiscard]] bool failed_elsewhere()
  {
    if (bad_news_ != MPI_REQUEST_NULL)
    {
      int arrived = 0;
      check(MPI_Test(&bad_news_, &arrived, MPI_STATUS_IGNORE));
    }
    return bad_news_ == MPI_REQUEST_NULL;
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

  MPI_Comm control_;
  int rank_ = 0;
  int size_ = 1;
  std::array<char, 2048> news_{};
  MPI_Request bad_news_ = MPI_REQUEST_NULL;
  std::string told_;
  int mine_ = 0;
  int smallest_ = 0;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool waiting_ = false;
  std::vector<std::unique_ptr<MpiMember>> members_;
  std::vector<MpiMember*> spare_;
  std::vector<MpiMember*> active_;
  std::jthread helper_;
};

}  // namespace cubist::detail
