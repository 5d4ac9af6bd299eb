// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call in flight between simulated ranks. It begins when its last rank has posted it, and its
// cost says when it ends. Data in host memory is transferred as between threads; simulated matrices
// have no data.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/group/call.hpp"
#include "cubist/comm/simulated/roles.hpp"
#include "cubist/simulation/activities.hpp"
#include "cubist/simulation/address_space.hpp"
#include "cubist/simulation/links.hpp"
#include "cubist/simulation/rank.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct SimulatedCall;
class SimulatedGroup;

/// Combines host memory with simulated memory, which reads as zeros and is never written.
struct MixedMemory
{
  [[nodiscard]] static bool is_simulated(const void* p)
  {
    return p == nullptr || SimulatedAddresses::contains(p);
  }
  static void copy(std::byte* out, const std::byte* in, std::size_t bytes)
  {
    if (is_simulated(out)) return;
    if (!is_simulated(in)) return DirectMemory::copy(out, in, bytes);
    if (bytes != 0) std::memset(out, 0, bytes);
  }
  static void combine(const ErasedCall& call, std::span<const std::byte* const> inputs,
                      std::size_t first, std::size_t count, std::byte* out)
  {
    if (is_simulated(out)) return;
    const std::vector<std::byte> zeros((first + count) * call.element_size);
    std::vector<const std::byte*> readable;
    for (const auto* in : inputs) readable.push_back(is_simulated(in) ? zeros.data() : in);
    DirectMemory::combine(call, readable, first, count, out);
  }
};

/// One rank's part in a call.
struct SimulatedMember final : SimulatedWait, GroupMember<SimulatedCall>
{
  [[nodiscard]] std::string describe() const override;

  SimulatedRank* rank = nullptr;
  bool waits = false;
  double posts = 0;  // when the rank posts its part
  double ends = Activities::never;
};

/// The transfer from one rank of a chain to the next (chain.hpp).
struct SimulatedEdge
{
  double begins;
  double segment_seconds;  // seconds of one segment, with its latency
  double ends = Activities::never;
  double arrives = Activities::never;  // when its last segment arrives, after the edge before
};

struct SimulatedCall : GroupCall<SimulatedMember>
{
  static constexpr double not_yet = Activities::never;

  SimulatedGroup* group = nullptr;
  int sender = 0;           // the rank of the launch that sends a message
  int receiver = 0;         // the rank of the launch that receives it, which may be folded
  std::uint64_t posts = 0;  // the largest number of calls that a rank has posted, this one included
  bool begun = false;
  std::size_t closed = 0;  // for a window: the number of ranks that have read what they need
  double begins = 0;       // the latest time of a post
  double opens = not_yet;  // for a window: when all ranks have exposed their blocks
  std::vector<SimulatedEdge> edges;

  /// @pre is_message()
  [[nodiscard]] bool is_within_node(const SimulatedLinks& links) const
  {
    return links.same_node(sender, receiver);
  }
  /// The size of a block, or of a piece, in bytes.
  [[nodiscard]] double bytes() const
  {
    return double(signature.count) * double(signature.element_size);
  }
  [[nodiscard]] bool is_chain() const
  {
    return !is_message() &&
           (signature.kind == CallKind::broadcast || signature.kind == CallKind::reduce);
  }

  /// Prepares the object for another call of the same ranks.
  void reset()
  {
    GroupCall::reset();
    for (auto& m : members)
    {
      m.waits = false;
      m.ends = not_yet;
      m.send = nullptr;
      m.recv = nullptr;
    }
    posts = 0;
    closed = 0;
    begun = false;
    begins = 0;
    opens = not_yet;
    edges.clear();
  }

  [[nodiscard]] bool only_sends(const SimulatedMember& m) const
  {
    return detail::only_sends(signature.kind, signature.peer, size(), int(m.index));
  }
  [[nodiscard]] bool only_receives(const SimulatedMember& m) const
  {
    return detail::only_receives(signature.kind, signature.peer, size(), int(m.index));
  }
  /// Whether all members have posted the call or, if messages are buffered, all that send
  /// something.
  [[nodiscard]] bool may_begin(bool buffered) const
  {
    return std::ranges::all_of(
        members, [&](const auto& m) { return m.posted || (buffered && only_receives(m)); });
  }
  /// Whether the data of all members that have posted the call is simulated.
  [[nodiscard]] bool is_simulated() const
  {
    return std::ranges::all_of(members, [](const auto& m) {
      return MixedMemory::is_simulated(m.send) && MixedMemory::is_simulated(m.recv);
    });
  }

  /// Transfers what is in host memory, unless a rank has left the call: then its memory may be
  /// gone.
  /// @pre all ranks have posted it
  void transfer() const
  {
    if (left_by >= 0 || is_simulated()) return;
    constexpr std::size_t most_with_work = 2;
    for (std::size_t stage = 0; stage < most_with_work; ++stage)
      for (const auto& m : members)
        if (const auto all = stages_of(m); stage < all.size())
          perform(all[stage].work, m, MixedMemory{});
  }
};

}  // namespace cubist::CUBIST_ABI::detail
