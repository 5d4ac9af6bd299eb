// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call in flight between simulated ranks. It begins when its last rank has posted it, and its
// cost says when it ends. Data in host memory is transferred as any communicator would; of
// simulated matrices there is none.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/comm/simulated/placement.hpp"
#include "cubist/comm/simulated/roles.hpp"
#include "cubist/comm/traffic.hpp"
#include "cubist/core/scalar.hpp"
#include "cubist/simulation/activities.hpp"
#include "cubist/simulation/address_space.hpp"
#include "cubist/simulation/rank.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct SimulatedCall;
class SimulatedGroup;

/// Combines elements [first, first + count) of all ranks, in the order of reduction.hpp.
template <Element T>
void combine_simulated(const SimulatedCall& call, std::size_t first, std::size_t count,
                       std::byte* out);

/// What all ranks of a call agree on. Both ends of a message have that of the send.
struct SimulatedSignature : CallSignature
{
  std::size_t element_size = 0;
  void (*combine)(const SimulatedCall&, std::size_t first, std::size_t count,
                  std::byte* out) = nullptr;

  template <Element T>
  [[nodiscard]] static SimulatedSignature of(const Call<T>& call)
  {
    SimulatedSignature s{CallSignature::of(call), sizeof(T), &combine_simulated<T>};
    if (s.collective == Collective::receive) s.collective = Collective::send;
    if (!has_root(s.collective)) s.peer = 0;
    return s;
  }
  friend bool operator==(const SimulatedSignature&, const SimulatedSignature&) = default;
};

/// One rank's part in a call.
struct SimulatedMember final : SimulatedWait
{
  [[nodiscard]] std::string describe() const override;

  SimulatedCall* call = nullptr;
  SimulatedRank* rank = nullptr;
  std::size_t index = 0;
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  bool posted = false;
  bool waits = false;
  bool closed = false;  // of a window: this rank has read what it needs
  double posts = 0;     // when
  double ends = Activities::never;
};

/// Of a chain: the transfer from one rank to the next (chain.hpp).
struct SimulatedEdge
{
  double begins;
  double segment_seconds;  // of one segment, with its latency
  double ends = Activities::never;
  double arrives = Activities::never;  // its last segment, behind that of the edge before
};

struct SimulatedCall
{
  static constexpr double not_yet = Activities::never;

  SimulatedGroup* group = nullptr;
  int from = -1;  // of a message; a collective has none
  int to = -1;
  std::uint64_t number = 0;
  SimulatedSignature signature;
  int first_rank = 0;
  std::vector<SimulatedMember> members;
  std::size_t posted = 0;
  bool begun = false;
  std::size_t closed = 0;
  std::size_t left = 0;
  double begins = 0;       // the latest time of a post
  double opens = not_yet;  // of a window: all have exposed their blocks
  std::vector<SimulatedEdge> edges;
  int abandoned_by = -1;

  [[nodiscard]] bool is_message() const { return from >= 0; }
  /// @pre is_message()
  [[nodiscard]] bool is_within_node(const SimulatedLinks& links) const
  {
    return links.same_node(members[0].rank->number, members[1].rank->number);
  }
  [[nodiscard]] int size() const { return static_cast<int>(members.size()); }
  /// Of a block, or of a piece.
  [[nodiscard]] double bytes() const
  {
    return double(signature.count) * double(signature.element_size);
  }
  [[nodiscard]] bool is_chain() const
  {
    return !is_message() && (signature.collective == Collective::broadcast ||
                             signature.collective == Collective::reduce);
  }

  /// For another call of the same ranks.
  void reset()
  {
    for (auto& m : members)
    {
      m.posted = m.waits = m.closed = false;
      m.ends = not_yet;
      m.send = nullptr;
      m.recv = nullptr;
    }
    posted = closed = left = 0;
    begun = false;
    begins = 0;
    opens = not_yet;
    edges.clear();
  }

  [[nodiscard]] bool only_sends(const SimulatedMember& m) const
  {
    return detail::only_sends(signature.collective, signature.peer, size(), int(m.index));
  }
  [[nodiscard]] bool only_receives(const SimulatedMember& m) const
  {
    return detail::only_receives(signature.collective, signature.peer, size(), int(m.index));
  }
  /// Whether all members have posted it or, if messages are buffered, all that send something.
  [[nodiscard]] bool may_begin(bool buffered) const
  {
    return std::all_of(members.begin(), members.end(),
                       [&](const auto& m) { return m.posted || (buffered && only_receives(m)); });
  }
  /// Whether the data of all members that have posted it is simulated.
  [[nodiscard]] bool is_simulated() const
  {
    return std::all_of(members.begin(), members.end(),
                       [](const auto& m) { return is_simulated(m.send) && is_simulated(m.recv); });
  }

  /// Transfers what is in host memory, unless a rank has left the call, and its memory with it.
  /// @pre all ranks have posted it
  void transfer() const
  {
    if (abandoned_by >= 0 || is_simulated() || signature.collective == Collective::expose) return;
    for (const auto& m : members)
      if (!is_simulated(m.recv)) transfer_to(m);
    if (signature.collective == Collective::all_reduce) finish_all_reduce();
  }

 private:
  [[nodiscard]] static bool is_simulated(const void* p)
  {
    return p == nullptr || SimulatedAddresses::contains(p);
  }

  void transfer_to(const SimulatedMember& me) const
  {
    const std::size_t bytes = signature.count * signature.element_size;
    const auto root = static_cast<std::size_t>(signature.peer);
    switch (signature.collective)
    {
    case Collective::broadcast:
      if (me.index != root) copy(me.recv, members[root].send, 0, bytes);
      break;
    case Collective::send:
      if (me.index == 1) copy(me.recv, members[0].send, 0, bytes);
      break;
    case Collective::scatter:
      copy(me.recv, members[root].send, me.index * bytes, bytes);
      break;
    case Collective::gather:
    case Collective::all_gather:
      if (signature.collective == Collective::gather && me.index != root) break;
      for (const auto& m : members) copy(me.recv + m.index * bytes, m.send, 0, bytes);
      break;
    case Collective::all_to_all:
      for (const auto& m : members)
        copy(me.recv + m.index * bytes, m.send, me.index * bytes, bytes);
      break;
    case Collective::reduce:
      if (me.index == root) signature.combine(*this, 0, signature.count, me.recv);
      break;
    case Collective::reduce_scatter:
      signature.combine(*this, me.index * signature.count, signature.count, me.recv);
      break;
    case Collective::all_reduce:
    {
      // In place, share by share; finish_all_reduce copies the shares.
      const auto [first, n] = share(me.index);
      signature.combine(*this, first, n, me.recv + first * signature.element_size);
      break;
    }
    default:
      break;
    }
  }

  void finish_all_reduce() const
  {
    for (const auto& m : members)
      for (const auto& other : members)
      {
        const auto [first, n] = share(other.index);
        const std::size_t offset = first * signature.element_size;
        if (!is_simulated(m.recv))
          copy(m.recv + offset, other.recv, offset, n * signature.element_size);
      }
  }

  [[nodiscard]] Share share(std::size_t member) const
  {
    return share_of(static_cast<int>(member), static_cast<int>(members.size()), signature.count);
  }

  /// Zeros, where the source is simulated.
  static void copy(std::byte* out, const std::byte* in, std::size_t offset, std::size_t bytes)
  {
    if (bytes == 0 || out == in + offset) return;
    if (is_simulated(in))
      std::memset(out, 0, bytes);
    else
      std::memcpy(out, in + offset, bytes);
  }
};

/// Whether messages of a call leave before their receivers wait for them: MPI buffers short ones
/// between nodes. Those of several ranks of a node, and data in host memory, do not.
[[nodiscard]] inline bool is_buffered(const SimulatedCall& call, const SimulatedMachine& machine,
                                      const SimulatedLinks& links,
                                      const SimulatedPlacement& placement)
{
  if (machine.algorithms != SimulatedAlgorithms::mpi || !call.is_simulated()) return false;
  if (call.is_message()) return !call.is_within_node(links);
  return placement.top() > 0 && placement.units(1).size() == placement.size();
}

/// Why the calls of two ranks do not match.
/// @param ranks of the communicator
[[nodiscard]] inline std::string mismatch_text(const SimulatedCall& call, SimulatedSignature mine,
                                               Collective called, int world_rank,
                                               const std::vector<int>& ranks)
{
  SimulatedSignature first = call.signature;
  if (call.is_message())
  {
    mine.collective = called;
    first.collective = called == Collective::send ? Collective::receive : Collective::send;
  }
  return "rank " + std::to_string(world_rank) + " called " + text(mine) + ", but rank " +
         std::to_string(call.first_rank) + " called " + text(first) + " as call " +
         std::to_string(call.number) + " on ranks " + rank_list(ranks) +
         ", so neither can complete; let all its ranks make the same calls in the same order, "
         "with the same element type, size, root and operation";
}

template <Element T>
void combine_simulated(const SimulatedCall& call, std::size_t first, std::size_t count,
                       std::byte* out)
{
  const auto& s = call.signature;
  const std::size_t begin = first_summand(s.collective, s.peer, call.members.size());
  const std::vector<T> zeros(count);
  const auto in = [&](std::size_t i) {
    const auto* send = call.members[(begin + i) % call.members.size()].send;
    return send == nullptr || SimulatedAddresses::contains(send)
               ? zeros.data()
               : reinterpret_cast<const T*>(send) + first;
  };
  combine(s.op, call.members.size(), in, count, reinterpret_cast<T*>(out));
}

}  // namespace cubist::CUBIST_ABI::detail
