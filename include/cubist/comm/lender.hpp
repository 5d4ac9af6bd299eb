// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that can read each other's memory lend blocks instead of sending them.
//
//   auto loan = world.lend(mine);   every rank lends a block of the same size
//   loan[r]                         the block of rank r, where it lies; waits until all have lent
//   loan.close();                   this rank reads no more; it does not wait
//   loan.wait();                    until no rank reads this rank's block
//
// In between nobody writes to what it has lent. A loan that is dropped before it has been waited
// for, as by an exception, is revoked: its rank stays until nobody reads its block any more, and
// peers get PeerFailed from what they wait for next.

#include <concepts>
#include <span>

#include "cubist/comm/communicator.hpp"

namespace cubist
{

// clang-format off
template <class L, class T>
concept Loan = std::move_constructible<L> && requires(L loan, int rank) {
  { loan[rank] } -> std::same_as<std::span<const T>>;
  loan.close();
  loan.wait();
};

/// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError, CommunicationError from
/// every call
template <class C>
concept Lender = Communicator<C> && requires(C c, const C& k, std::span<const double> mine) {
  { k.lends() } -> std::same_as<bool>;  // whether all its ranks are where memory is shared
  { c.lend(mine) } -> Loan<double>;     // @pre lends()
};
// clang-format on

/// Whether the ranks of a communicator can lend.
template <Communicator C>
[[nodiscard]] bool can_lend([[maybe_unused]] const C& communicator)
{
  if constexpr (Lender<C>)
    return communicator.lends();
  else
    return false;
}

}  // namespace cubist
