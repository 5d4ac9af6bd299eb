// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Where MPI processes of one node meet without messages. Each has a seat in its arena
// (memory/shared_arena.hpp), on which it writes to how many meetings of a communicator it has come,
// and what it has to tell there. Once all have come to a meeting it is complete; the last one
// rings for those that sleep. MPI's own barrier must be looked after by all of its ranks, again and
// again, which takes processor time from those that compute.

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "cubist/memory/futex_event.hpp"
#include "cubist/memory/shared_arena.hpp"

namespace cubist::detail
{

/// What a rank tells at a meeting: which call that is to it, and two numbers.
using Told = std::array<std::uint64_t, 3>;

/// In its rank's arena; peers read it. Counts never go back, whoever has the seat.
struct Seat
{
  /// What is told at a meeting is kept until this many later ones.
  static constexpr std::size_t kept = 64;
  static constexpr std::size_t line = 64;

  alignas(line) std::atomic<std::uint64_t> reached;  // so many meetings
  alignas(line) std::atomic<std::uint64_t> heard;    // all that was told at so many
  alignas(line) std::array<Told, kept> told;
};

/// A seat of this process, for as long as a communicator lasts.
class MySeat
{
 public:
  MySeat() : seat_{take()}
  {
    if (seat_ != nullptr) seat_->heard = seat_->reached.load();
  }
  MySeat(const MySeat&) = delete;
  MySeat& operator=(const MySeat&) = delete;
  ~MySeat()
  {
    if (seat_ == nullptr) return;
    auto& spare = Spare::get();
    const std::lock_guard lock{spare.mutex};
    spare.seats.push_back(seat_);
  }

  [[nodiscard]] Seat* get() const { return seat_; }
  /// Nobody else gets it: peers may not be through with it, as a failure leaves them.
  void keep() { seat_ = nullptr; }
  /// One for all communicators of this process; nothing without an arena.
  [[nodiscard]] static FutexEvent* bell()
  {
    static FutexEvent* const mine = in_arena<FutexEvent>();
    return mine;
  }

 private:
  struct Spare
  {
    std::mutex mutex;
    std::vector<Seat*> seats;

    static Spare& get()
    {
      static auto& spare = *new Spare;
      return spare;
    }
  };

  /// Stays for ever: a peer may look at it when this process has gone on.
  template <class U>
  static U* in_arena()
  {
    auto& arena = SharedArena::mine();
    void* room = arena.exists() ? arena.allocate(sizeof(U)) : nullptr;
    return room == nullptr ? nullptr : new (room) U{};
  }

  static Seat* take()
  {
    auto& spare = Spare::get();
    const std::lock_guard lock{spare.mutex};
    if (spare.seats.empty()) return in_arena<Seat>();
    Seat* const last = spare.seats.back();
    spare.seats.pop_back();
    return last;
  }

  Seat* seat_;
};

/// The meetings of a communicator, as one rank has them.
class MpiSharedBarrier
{
 public:
  /// A rank as its peers reach it.
  struct Place
  {
    Seat* seat = nullptr;
    FutexEvent* bell = nullptr;
    std::uint64_t reached = 0;  // before the first meeting
  };

  MpiSharedBarrier(std::vector<Place> ranks, int rank)
      : ranks_{std::move(ranks)}, mine_{ranks_[static_cast<std::size_t>(rank)]}
  {
    constexpr std::size_t at_once = 64;
    unheard_.reserve(at_once);
  }

  /// The number of this rank's next meeting.
  [[nodiscard]] std::uint64_t next()
  {
    unheard_.push_back(++next_);
    return next_;
  }

  /// Comes to a meeting, after those before it, if peers have heard all that its place was used
  /// for.
  bool come(std::uint64_t meeting, const Told& tells)
  {
    if (mine_.seat->reached.load() - mine_.reached + 1 != meeting) return false;
    const bool room = std::all_of(ranks_.begin(), ranks_.end(), [&](const Place& r) {
      return r.seat->heard.load() - r.reached + Seat::kept >= meeting;
    });
    if (!room) return false;
    mine_.seat->told[meeting % Seat::kept] = tells;
    mine_.seat->reached.store(mine_.reached + meeting);
    if (complete(meeting))
      for (const Place& r : ranks_)
        if (r.bell != mine_.bell) r.bell->ring();
    return true;
  }

  [[nodiscard]] bool complete(std::uint64_t meeting) const
  {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Place& r) { return has_come(r, meeting); });
  }

  /// What each rank has told; hears(i, told) for each of them.
  /// @pre complete(meeting), and this rank has not heard it yet
  template <class F>
  void hear(std::uint64_t meeting, F hears)
  {
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      hears(i, std::as_const(ranks_[i].seat->told[meeting % Seat::kept]));
    std::erase(unheard_, meeting);
    const std::uint64_t all = unheard_.empty() ? next_ : unheard_.front() - 1;
    mine_.seat->heard.store(mine_.reached + all);
  }

  /// A rank at whose last meeting, which this one has not heard, it differs(told) from what this
  /// one waits in; -1 for none. (Numbers of calls come again, so older meetings say nothing.)
  template <class F>
  [[nodiscard]] int stranger(F differs) const
  {
    const auto heard = mine_.seat->heard.load() - mine_.reached;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (const auto last = ranks_[i].seat->reached.load() - ranks_[i].reached;
          last > heard && differs(std::as_const(ranks_[i].seat->told[last % Seat::kept])))
        return static_cast<int>(i);
    return -1;
  }

  /// The ranks that have not come.
  [[nodiscard]] std::vector<int> missing(std::uint64_t meeting) const
  {
    std::vector<int> all;
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (!has_come(ranks_[i], meeting)) all.push_back(static_cast<int>(i));
    return all;
  }

 private:
  [[nodiscard]] static bool has_come(const Place& rank, std::uint64_t meeting)
  {
    return rank.seat->reached.load() - rank.reached >= meeting;
  }

  std::vector<Place> ranks_;
  Place mine_;
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> unheard_;  // in their order
};

}  // namespace cubist::detail
