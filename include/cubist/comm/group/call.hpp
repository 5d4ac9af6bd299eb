// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call of ranks in one process: the addresses that each rank has posted, what a rank copies and
// combines from them, and the error messages. Derived classes decide who waits and when the work is
// done. Each thread advances through the stages (stages.hpp) by itself; simulated ranks transfer
// everything once all have posted.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/stages.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// One rank's part in a call.
/// @tparam Call the call, which derives from GroupCall
template <class Call>
struct GroupMember
{
  Call* call = nullptr;
  std::size_t index = 0;
  int world_rank = 0;
  const std::byte* send = nullptr;
  std::size_t send_bytes = 0;
  std::byte* recv = nullptr;
  bool posted = false;
};

/// Copies and combines memory that all ranks can access.
struct DirectMemory
{
  /// @param out null if nothing is received
  static void copy(std::byte* out, const std::byte* in, std::size_t bytes)
  {
    if (bytes != 0 && out != nullptr && out != in) std::memcpy(out, in, bytes);
  }
  static void combine(const ErasedCall& call, std::span<const std::byte* const> inputs,
                      std::size_t first, std::size_t count, std::byte* out)
  {
    call.combine(call.op, inputs, first, count, out);
  }
};

/// A call in flight: what each rank has posted, and the gates that ranks have passed.
/// @tparam Member derives from GroupMember
template <class Member>
struct GroupCall
{
  const std::vector<int>* ranks = nullptr;  // of the launch, in the order of the communicator
  int from = -1;                            // the sender of a message; -1 for a collective
  int to = -1;
  std::uint64_t number = 0;
  decltype(Member::call) next_in_flight = nullptr;  // the next one in a chain of CallsInFlight
  ErasedCall signature;  // both ends of a message have the signature of the send
  int first_rank = 0;    // the first rank that has posted it
  std::vector<Member> members;
  std::vector<const std::byte*> summands;  // the blocks that ranks send, in the order of summation
  // Threads read these two without a lock.
  std::array<std::atomic<std::size_t>, 4> gates{};
  std::atomic<int> left_by{-1};  // the rank that left before the call ended
  std::size_t left = 0;

  [[nodiscard]] bool is_message() const { return from >= 0; }
  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }

  /// Whether a member is the root, or the sender of a message.
  [[nodiscard]] bool is_source(const Member& m) const
  {
    if (is_message()) return m.index == 0;
    return has_root(signature.kind) && static_cast<int>(m.index) == signature.peer;
  }
  /// The collective that a member has called.
  [[nodiscard]] CallKind called_by(const Member& m) const
  {
    return is_message() && m.index == 1 ? CallKind::receive : signature.kind;
  }
  [[nodiscard]] std::span<const Stage> stages_of(const Member& m) const
  {
    const CallStages& all = stages(called_by(m));
    return is_source(m) ? all.source : all.others;
  }

  /// Adds a rank's part, which its peers may read from now on.
  void add(Member& me, const ErasedCall& mine)
  {
    set_block(me, mine.send);
    me.send_bytes = mine.send_bytes;
    me.recv = mine.recv;
    me.posted = true;
    pass(Gate::posted);
    if (is_source(me)) pass(Gate::source);
  }
  /// Sets where peers read the block of a rank.
  void set_block(Member& me, const std::byte* block)
  {
    me.send = block;
    const std::size_t p = members.size();
    if (!is_message())
      summands[(me.index + p - first_summand(signature.kind, signature.peer, p)) % p] = block;
  }
  /// How many ranks have posted their parts.
  [[nodiscard]] std::size_t posted() const { return gates[static_cast<std::size_t>(Gate::posted)]; }
  void pass(Gate gate) { ++gates[static_cast<std::size_t>(gate)]; }
  [[nodiscard]] bool open(Gate gate) const
  {
    const auto all = members.size();
    std::size_t target = gate == Gate::source ? 1 : all;
    if (gate == Gate::done)
    {
      if (signature.kind == CallKind::gather) target = 1;
      if (signature.kind == CallKind::broadcast || signature.kind == CallKind::scatter ||
          is_message())
        target = all - 1;
    }
    return gates[static_cast<std::size_t>(gate)] >= target;
  }

  [[nodiscard]] Share share(std::size_t member) const
  {
    return share_of(static_cast<int>(member), size(), signature.count);
  }

  /// Does one rank's work in a stage.
  template <class Memory>
  void perform(CopyWork work, const Member& me, const Memory& memory) const
  {
    const std::size_t bytes = signature.bytes();
    const auto root = static_cast<std::size_t>(signature.peer);
    switch (work)
    {
    case CopyWork::none:
    case CopyWork::read_peers:
      break;
    case CopyWork::copy_source:
      memory.copy(me.recv, members[is_message() ? 0 : root].send, bytes);
      break;
    case CopyWork::copy_piece:
      memory.copy(me.recv, members[root].send + me.index * bytes, bytes);
      break;
    case CopyWork::gather_pieces:
      if (me.recv == nullptr) break;  // only a split has no buffer
      for (const auto& m : members) memory.copy(me.recv + m.index * bytes, m.send, bytes);
      break;
    case CopyWork::exchange_pieces:
      for (const auto& m : members)
        memory.copy(me.recv + m.index * bytes, m.send + me.index * bytes, bytes);
      break;
    case CopyWork::reduce_piece:
    {
      if (signature.kind == CallKind::reduce_scatter)
        return memory.combine(signature, summands, me.index * signature.count, signature.count,
                              me.recv);
      const auto [first, n] = share(me.index);
      std::byte* const sums = members[signature.kind == CallKind::reduce ? root : me.index].recv;
      return memory.combine(signature, summands, first, n, sums + first * signature.element_size);
    }
    case CopyWork::reduce_all:
      return memory.combine(signature, summands, 0, signature.count, me.recv);
    case CopyWork::copy_reduced:
      for (const auto& m : members)
      {
        const auto [first, n] = share(m.index);
        const std::size_t offset = first * signature.element_size;
        memory.copy(me.recv + offset, m.recv + offset, n * signature.element_size);
      }
      break;
    }
  }

  /// Prepares the object for another call of the same ranks.
  void reset()
  {
    for (auto& gate : gates) gate = 0;
    left = 0;
    for (auto& m : members) m.posted = false;
  }

  /// Returns " on ranks {0, 1}", with at most 16 ranks, or " from rank 0 to rank 1" for a message.
  [[nodiscard]] std::string where() const
  {
    if (is_message())
      return " from rank " + std::to_string(members[0].world_rank) + " to rank " +
             std::to_string(members[1].world_rank);
    return " on ranks " + rank_list(*ranks);
  }

  /// The ranks that have not made the call.
  [[nodiscard]] std::vector<int> missing() const
  {
    std::vector<int> missing;
    for (const auto& m : members)
      if (!m.posted) missing.push_back(m.world_rank);
    return missing;
  }

  /// Returns "all_reduce of 4 double by sum on ranks {0, 1}, which ranks {1} have not called".
  /// @param incomplete the ranks that have not completed the call, if all have made it
  [[nodiscard]] std::string describe(const Member& me, const std::vector<int>& incomplete) const
  {
    CallSignature mine = signature;
    mine.kind = called_by(me);
    const auto late = missing();
    const auto& awaited = late.empty() ? incomplete : late;
    return text(mine) + where() + ", which " +
           (awaited.empty() ? "another rank has" : "ranks " + rank_list(awaited) + " have") +
           (late.empty() ? " not completed" : " not called");
  }

  /// Says why a rank's call does not match the first rank's call.
  [[nodiscard]] std::string mismatch(CallSignature mine, CallKind called, int world_rank) const
  {
    CallSignature first = signature;
    if (is_message())
    {
      mine.kind = called;
      first.kind = called == CallKind::send ? CallKind::receive : CallKind::send;
    }
    return "rank " + std::to_string(world_rank) + " called " + text(mine) + ", but rank " +
           std::to_string(first_rank) + " called " + text(first) + " as call " +
           std::to_string(number) + where() +
           ", so neither can complete; let all its ranks make the same calls in the same order, "
           "with the same element type, size, root and operation";
  }

  /// Returns the error of a rank whose peer left the call.
  /// @pre left_by >= 0
  [[nodiscard]] PeerFailed left_error(const Member& me) const
  {
    return PeerFailed{"rank " + std::to_string(left_by.load()) + " left " + text(signature) +
                      where() + " before its end, so rank " + std::to_string(me.world_rank) +
                      " cannot complete it; look for the error of that rank"};
  }
};

}  // namespace cubist::CUBIST_ABI::detail
