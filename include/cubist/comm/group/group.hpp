// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The ranks of one communicator in one process, and their calls in flight. The n-th collectives of
// all ranks are the same call, and so are the n-th messages of a pair. Derived classes decide how a
// rank waits: in threads/group.hpp ranks block; in simulated/group.hpp they are fibers that yield.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/calls_in_flight.hpp"
#include "cubist/comm/group/split.hpp"
#include "cubist/comm/request.hpp"
#include "cubist/core/error.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

template <class Group, class T>
class GroupWindow;

}  // namespace cubist::CUBIST_ABI

namespace cubist::CUBIST_ABI::detail
{

/// How many calls are allocated in advance. Ranks that are at most this far ahead of each other
/// allocate nothing.
struct SpareCalls
{
  std::size_t collectives = 0;
  std::size_t messages = 0;
};

/// The base class of the groups. Derived implements the functions that PendingCall calls
/// (request.hpp), and
///
///   post(rank, call)   posts one rank's part in its next call, and returns it
///   lock()             returns a lock that guards `next`, `leave` and parts of `split`
///   adopt(call)        sets what Derived adds to a call whose members are set
///   make(ranks)        makes a group of some of the ranks, or returns null if none is needed
///
/// If only some of the ranks are members of calls, it also hides
///
///   size(), rank_of(position)   count and number all ranks
///   place(rank)                 returns the place of a rank among the members
///   ends(from, to)              returns the sender and receiver of the message that stands for the
///                               message between these ranks
template <class Derived, class Call>
class RankGroup : public std::enable_shared_from_this<Derived>
{
 public:
  using Member = typename decltype(Call::members)::value_type;
  template <class Communicator, class T>
  using Window = GroupWindow<Derived, T>;

  /// @param ranks the communicator's ranks in order, by their numbers in the launch
  RankGroup(std::vector<int> ranks, SpareCalls spare)
      : ranks_{std::move(ranks)},
        sizes_{spare},
        next_(ranks_.size(), 0),
        messages_(ranks_.size()),
        splits_(ranks_.size(), 0)
  {
  }
  RankGroup(RankGroup&&) = delete;

  [[nodiscard]] const std::vector<int>& ranks() const { return ranks_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
  [[nodiscard]] int rank_of(std::size_t position) const { return ranks_[position]; }
  [[nodiscard]] std::size_t place(int rank) const { return static_cast<std::size_t>(rank); }
  [[nodiscard]] std::pair<int, int> ends(int from, int to) const { return {from, to}; }

  /// Starts a rank's part in its next call.
  template <Element T>
  Member& start(int rank, const cubist::Call<T>& call)
  {
    return self().post(rank, call);
  }

  /// Returns the group of all ranks with the colour of `rank`, ordered by key, then by rank, and
  /// the position of `rank` in it.
  /// @param prepare the first rank calls prepare(split)
  template <class Prepare>
  std::pair<std::shared_ptr<Derived>, int> split(int rank, int colour, int key, Prepare prepare)
  {
    const auto index = static_cast<std::size_t>(rank);
    std::uint64_t number = 0;
    const auto mine = [&] {
      const auto lock = self().lock();
      number = splits_[self().place(rank)]++;
      auto& pending = pending_splits_[number % 2];
      if (pending == nullptr)
      {
        pending = std::make_shared<GroupSplit<Derived>>(static_cast<std::size_t>(self().size()));
        prepare(*pending);
      }
      pending->give(index, colour, key);
      return pending;
    }();
    // The ranks exchange colour and key in `mine`, so this call has no buffers.
    const cubist::Call<int> exchange{CallKind::all_gather, {}, {}, 2};
    PendingCall{this->shared_from_this(), self().post(rank, exchange)}.wait();
    const auto lock = self().lock();
    pending_splits_[number % 2].reset();
    return mine->group_of(index, [this](const std::vector<std::size_t>& members) {
      std::vector<int> ranks;
      for (const std::size_t r : members) ranks.push_back(self().rank_of(r));
      return self().make(std::move(ranks));
    });
  }
  std::pair<std::shared_ptr<Derived>, int> split(int rank, int colour, int key)
  {
    return split(rank, colour, key, [](auto&) {});
  }

 protected:
  /// Allocates collectives in advance.
  void add_spare_collectives() { add_spare(sizes_.collectives, false); }

  /// Posts a rank's part in its next call. The caller holds the lock.
  /// @param fail fail(message) is called before the error of a mismatch is thrown
  /// @throws CollectiveMismatch
  template <class Fail>
  Member& next(int rank, const ErasedCall& mine, Fail fail)
  {
    Call& call = next_call(rank, mine.kind, mine.peer);
    Member& me = call.members[!is_message(mine.kind)        ? self().place(rank)
                              : mine.kind == CallKind::send ? 0
                                                            : 1];
    ErasedCall signature = mine;
    if (signature.kind == CallKind::receive) signature.kind = CallKind::send;
    if (!has_root(signature.kind)) signature.peer = 0;
    const CallSignature& of_first = call.signature;
    if (call.posted() == 0)
    {
      call.signature = signature;
      call.first_rank = me.world_rank;
    }
    else if (of_first != signature)
    {
      const auto why = call.mismatch(signature, mine.kind, me.world_rank);
      fail(why);
      throw CollectiveMismatch{why};
    }
    call.add(me, mine);
    return me;
  }

  /// Counts a rank that has left a call. When the last one has left, the object can be used for
  /// another call. The caller holds the lock.
  void leave(Call& call)
  {
    if (++call.left < call.members.size() || call.left_by >= 0) return;
    call.reset();
    in_flight_.remove(call);
    spare_of(call.is_message()).push_back(&call);
  }

 private:
  Derived& self() { return static_cast<Derived&>(*this); }

  Call& next_call(int rank, CallKind kind, int peer)
  {
    const std::size_t index = self().place(rank);
    if (!is_message(kind)) return find(-1, -1, next_[index]++);
    if (!std::exchange(has_messages_, true))
      add_spare(std::min(2 * ranks_.size() * ranks_.size(), sizes_.messages), true);
    const bool sends = kind == CallKind::send;
    const auto [from, to] = self().ends(sends ? rank : peer, sends ? peer : rank);
    return find(from, to, messages_[index][{peer, sends}]++);
  }

  Call& find(int from, int to, std::uint64_t number)
  {
    if (Call* call = in_flight_.find(from, to, number)) return *call;
    auto& spare = spare_of(from >= 0);
    const bool is_new = spare.empty();
    Call* call = is_new ? &calls_.emplace_back() : spare.back();
    if (!is_new) spare.pop_back();
    call->from = from;
    call->to = to;
    call->number = number;
    if (is_new || from >= 0) enrol(*call);
    in_flight_.add(*call);
    return *call;
  }

  void add_spare(std::size_t n, bool messages)
  {
    auto& spare = spare_of(messages);
    spare.reserve(spare.size() + 2 * n);
    in_flight_.reserve(calls_.size() + 2 * n);
    for (std::size_t i = 0; i < n; ++i)
    {
      Call& call = calls_.emplace_back();
      if (messages) call.from = call.to = 0;
      enrol(call);
      spare.push_back(&call);
    }
  }

  /// The spare messages, or the spare collectives.
  std::vector<Call*>& spare_of(bool messages) { return messages ? spare_messages_ : spare_; }

  /// Sets the members of a call: all ranks or, for a message, the sender and the receiver, which
  /// may be the same rank.
  void enrol(Call& call)
  {
    call.ranks = &ranks_;
    call.members.resize(call.is_message() ? 2 : ranks_.size());
    if (!call.is_message()) call.summands.resize(ranks_.size());
    for (std::size_t i = 0; i < call.members.size(); ++i)
    {
      const std::size_t rank = call.is_message() ? self().place(i == 0 ? call.from : call.to) : i;
      call.members[i].call = &call;
      call.members[i].index = i;
      call.members[i].world_rank = ranks_[rank];
    }
    self().adopt(call);
  }

  std::vector<int> ranks_;
  SpareCalls sizes_;
  std::vector<std::uint64_t> next_;  // the number of each rank's next collective
  // For each rank: the number of its next message, by the peer and by whether it sends.
  std::vector<std::map<std::pair<int, bool>, std::uint64_t>> messages_;
  bool has_messages_ = false;
  std::vector<std::uint64_t> splits_;  // the splits that each rank has made
  // Two are enough, by the last bit of their numbers: no rank begins a split before all have begun
  // the previous one.
  std::array<std::shared_ptr<GroupSplit<Derived>>, 2> pending_splits_;
  std::deque<Call> calls_;
  CallsInFlight<Call> in_flight_;
  std::vector<Call*> spare_;  // collectives
  std::vector<Call*> spare_messages_;
};

}  // namespace cubist::CUBIST_ABI::detail
