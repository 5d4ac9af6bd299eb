// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The bodies of scheduler.hpp's functions, which the compiled library contains.

#include "cubist/comm/threads/scheduler.hpp"

namespace cubist::CUBIST_ABI::detail
{

CUBIST_INLINE bool ThreadScheduler::test(int rank, Waiter& waiter)
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

CUBIST_INLINE void ThreadScheduler::wait(int rank, Waiter& waiter)
{
  const auto end = this->end();
  while (!test(rank, waiter)) park(rank, waiter, end);
}

CUBIST_INLINE void ThreadScheduler::notify(std::span<const int> ranks)
{
  for (std::size_t i = 0; i < ranks.size();)
  {
    FutexEvent& event = wake(ranks[i]);
    std::size_t end = i + 1;
    while (end < ranks.size() && &wake(ranks[end]) == &event) ++end;
    // Counted before they are woken: a rank that was parked may run, and park again, immediately.
    const auto count = static_cast<int>(end - i);
    running_.fetch_add(count);
    FutexEvent::Mask parked = 0;
    int ran = 0;
    for (; i < end; ++i)
      if (state(ranks[i]).flag.exchange(RankFlag::notified) == RankFlag::parked)
        parked |= bit(ranks[i]);
      else
        ++ran;
    if (ran > 0) running_.fetch_sub(ran);
    if (parked != 0) event.notify(parked);
  }
}

CUBIST_INLINE bool ThreadScheduler::fail(Failure failure, std::string message)
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

CUBIST_INLINE void ThreadScheduler::finish(int rank)
{
  {
    const std::lock_guard lock{mutex_};
    state(rank).finished = true;
    cores_.wait(rank);
    --unfinished_;
  }
  changed_.notify_all();
  if (running_.fetch_sub(1) == 1) report_deadlock();
}

CUBIST_INLINE std::pair<std::string, std::vector<int>>
ThreadScheduler::stragglers(std::chrono::milliseconds grace)
{
  const auto all_finished = [this] { return unfinished_ == 0; };
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return all_finished() || failure_.load() != Failure::none; });
  changed_.wait_for(lock, grace, all_finished);
  std::vector<int> late;
  for (std::size_t r = 0; r < ranks_; ++r)
    if (!states_[r].finished) late.push_back(static_cast<int>(r));
  return {message_, late};
}

CUBIST_INLINE void ThreadScheduler::park(int rank, const Waiter& waiter, End end)
{
  auto& s = state(rank);
  const WaitTimer timer;
  cores_.wait(rank);
  yield_.until([&s] { return s.flag.load() != RankFlag::running; }, least_yield, cores_);
  s.waits_for = &waiter;
  auto expected = RankFlag::running;
  if (s.flag.compare_exchange_strong(expected, RankFlag::parked))
  {
    if (running_.fetch_sub(1) == 1) report_deadlock();
    const auto is_notified = [&s] { return s.flag.load() != RankFlag::parked; };
    while (!is_notified())
    {
      wake(rank).wait_unless(is_notified, end, bit(rank));
      if (is_notified() || Clock::now() < end) continue;
      if (count_as_running()) return exceed_limit(rank, waiter);
      end = End::max();  // a deadlock is being reported
    }
  }
  cores_.compute(rank);
  resume(s);
}

CUBIST_INLINE bool ThreadScheduler::count_as_running()
{
  int running = running_.load();
  while (running > 0)
    if (running_.compare_exchange_weak(running, running + 1)) return true;
  return false;
}

CUBIST_INLINE void ThreadScheduler::exceed_limit(int rank, const Waiter& waiter)
{
  std::string message = "waited for " + std::to_string(limit_->count()) + " ms in " +
                        waiter.describe() + ", so the time limit ran out";
  for (const int other : waiter.awaited())
    message += "; rank " + std::to_string(other) + " " + activity(other);
  message += "; remove what delays them, or give launch a longer time limit";
  auto& s = state(rank);
  {
    const std::lock_guard no_rank_reads_it{s.mutex};
    if (s.flag.exchange(RankFlag::running) != RankFlag::parked)
    {
      running_.fetch_sub(1);  // the rank that notified it has counted it, too
      return;
    }
  }
  raise();
  if (!fail(Failure::peer_failed, "rank " + std::to_string(rank) + " " + message)) raise();
  throw TimeLimitError{message};
}

CUBIST_INLINE std::string ThreadScheduler::activity(int rank)
{
  {
    const std::lock_guard lock{mutex_};
    if (state(rank).finished) return "has returned";
  }
  auto& s = state(rank);
  const std::lock_guard it_stays_parked{s.mutex};
  return s.flag.load() == RankFlag::parked ? "waits in " + s.waits_for->describe()
                                           : "is not waiting";
}

CUBIST_INLINE void ThreadScheduler::report_deadlock()
{
  if (failure_.load() != Failure::none) return;  // the ranks are being released already
  auto text = deadlock_text(static_cast<int>(ranks_), [this](int rank) {
    return state(rank).finished ? nullptr : state(rank).waits_for;
  });
  if (!text.empty()) fail(Failure::deadlock, std::move(text));
}

}  // namespace cubist::CUBIST_ABI::detail
