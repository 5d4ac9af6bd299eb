// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Counts what the ranks of a collective send on a cluster.
//
// The conventions are those of the cost formulas: rings for the gathering and scattering
// collectives, pipelined chains that start at the root for broadcast and reduce, and direct
// messages for the rest. With P ranks and pieces of n elements, one rank sends
//
//   broadcast, reduce                        n, except the end of the chain   1 message
//   all_gather, reduce_scatter, all_to_all   (P-1) n                          P-1 messages
//   all_reduce                               2 (P-1)/P n: all shares except   2 (P-1) messages
//                                            one, twice
//   gather                                   n, except the root               1 message
//   scatter                                  (P-1) n at the root              P-1 messages
//   barrier                                  nothing                          ceil(log2 P) messages
//
// Source: Chan, Heimlich, Purkayastha, van de Geijn, "Collective communication: theory, practice,
// and experience", 2007.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "cubist/comm/call.hpp"
#include "cubist/comm/reduction.hpp"

namespace cubist::CUBIST_ABI
{

/// What one rank has sent.
struct Sent
{
  std::uint64_t messages = 0;  ///< number of messages
  std::uint64_t elements = 0;  ///< number of elements in them

  Sent& operator+=(const Sent& other)
  {
    messages += other.messages;
    elements += other.elements;
    return *this;
  }
  friend bool operator==(const Sent&, const Sent&) = default;
};

/// The messages and elements that one rank has sent, by collective, over all its communicators.
class Traffic
{
 public:
  [[nodiscard]] const Sent& operator[](CallKind c) const
  {
    return sent_[static_cast<std::size_t>(c)];
  }
  /// The sum over all collectives and messages.
  [[nodiscard]] Sent total() const
  {
    Sent all;
    for (const auto& s : sent_) all += s;
    return all;
  }
  /// Adds what a call sent.
  void add(CallKind c, Sent s) { sent_[static_cast<std::size_t>(c)] += s; }
  /// Sets all counts to 0.
  void reset() { sent_ = {}; }

 private:
  std::array<Sent, call_kind_count> sent_{};
};

/// What `rank` of `ranks` sends in a call, by the conventions above.
template <Element T>
[[nodiscard]] Sent sent_by(const Call<T>& call, int rank, int ranks)
{
  const auto p = static_cast<std::uint64_t>(ranks);
  const std::uint64_t n = call.count;
  const auto distance = static_cast<std::uint64_t>((rank - call.peer + ranks) % ranks);
  const auto share = [&](int r) { return detail::share_of(r, ranks, call.count).count; };
  if (p == 1) return {};
  switch (call.kind)
  {
  case CallKind::barrier:
    return {static_cast<std::uint64_t>(std::bit_width(p - 1)), 0};
  case CallKind::broadcast:
    return distance == p - 1 ? Sent{} : Sent{1, n};
  case CallKind::reduce:
    return distance == 0 ? Sent{} : Sent{1, n};
  case CallKind::all_reduce:
    return {2 * (p - 1), 2 * n - share((rank + 1) % ranks) - share((rank + 2) % ranks)};
  case CallKind::all_gather:
  case CallKind::reduce_scatter:
  case CallKind::all_to_all:
    return {p - 1, (p - 1) * n};
  case CallKind::gather:
    return distance == 0 ? Sent{} : Sent{1, n};
  case CallKind::scatter:
    return distance == 0 ? Sent{p - 1, (p - 1) * n} : Sent{};
  case CallKind::send:
    return rank == call.peer ? Sent{} : Sent{1, n};
  case CallKind::receive:
  case CallKind::expose:
    return {};
  }
  return {};
}

}  // namespace cubist::CUBIST_ABI
