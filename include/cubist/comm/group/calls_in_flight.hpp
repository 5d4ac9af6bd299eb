// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A hash table that finds the calls in flight of one process by sender, receiver and number. An
// exchange of messages between all ranks has P² of them. The chains of the table link the calls
// themselves, so only `reserve`, and an `add` beyond what is reserved, allocate.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cubist/version.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @tparam Call a type with from, to, number and next_in_flight, such as GroupCall
template <class Call>
class CallsInFlight
{
 public:
  /// Allocates a table for this many calls in flight.
  void reserve(std::size_t calls)
  {
    if (calls <= chains_.size()) return;
    std::vector<Call*> former(std::bit_ceil(calls), nullptr);
    std::swap(former, chains_);
    for (Call* call : former)
      while (call != nullptr) link(*std::exchange(call, call->next_in_flight));
  }

  /// Returns the call with this sender, receiver and number, or null if there is none.
  [[nodiscard]] Call* find(int from, int to, std::uint64_t number) const
  {
    if (chains_.empty()) return nullptr;
    Call* call = chains_[chain_of(from, to, number)];
    while (call != nullptr && (call->number != number || call->from != from || call->to != to))
      call = call->next_in_flight;
    return call;
  }

  void add(Call& call)
  {
    reserve(++size_);
    link(call);
  }

  /// @pre the call is in flight
  void remove(Call& call)
  {
    Call** link = &chains_[chain_of(call.from, call.to, call.number)];
    while (*link != &call) link = &(*link)->next_in_flight;
    *link = call.next_in_flight;
    --size_;
  }

 private:
  [[nodiscard]] std::size_t chain_of(int from, int to, std::uint64_t number) const
  {
    // Multiplication by an odd constant spreads the keys over the high bits (Knuth, TAOCP 3, 6.4).
    const std::uint64_t key = static_cast<std::uint64_t>(from) * 0x100000001b3U +
                              static_cast<std::uint64_t>(to) * 0x10001U + number;
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15U) >> 32U) & (chains_.size() - 1);
  }
  void link(Call& call)
  {
    Call*& first = chains_[chain_of(call.from, call.to, call.number)];
    call.next_in_flight = std::exchange(first, &call);
  }

  std::vector<Call*> chains_;  // their number is a power of two
  std::size_t size_ = 0;
};

}  // namespace cubist::CUBIST_ABI::detail
