// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that can read each other's memory lend blocks instead of sending them.
//
//   auto loan = world.lend(mine);   every rank lends a block of the same size
//   loan[r]                         the block of rank r, where it lies; waits until all have lent
//   loan.close();                   this rank reads no more; it does not wait
//   loan.wait();                    until no rank reads this rank's block
//
// With their size, world.lend(mine, size), some ranks may lend blocks, and the others empty ones
// that nobody asks for. What is lent by world.lend_to_write(mine) others may write to: no two ranks
// the same element, and nobody what another one reads.
//
// In between nobody writes to what else it has lent. A loan that is dropped before it has been
// waited for, as by an exception, is revoked: its rank stays until nobody reads its block any more,
// and peers get PeerFailed from what they wait for next.

#include <concepts>
#include <span>

#include "cubist/comm/communicator.hpp"

namespace cubist
{

// clang-format off
template <class L, class T>
concept Loan = std::move_constructible<L> && requires(L loan, int rank) {
  { loan[rank] } -> std::same_as<std::span<T>>;
  loan.close();
  loan.wait();
};

/// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError, CommunicationError from
/// every call
template <class C>
concept Lender = Communicator<C> && requires(C c, const C& k, std::span<const double> mine,
                                             std::span<double> ours) {
  { k.lends() } -> std::same_as<bool>;  // whether all its ranks are where memory is shared
  { k.cores() } -> std::same_as<int>;   // on which its ranks run, all together; @pre lends()
  { c.lend(mine) } -> Loan<const double>;  // @pre lends()
  { c.lend(mine, mine.size()) } -> Loan<const double>;
  { c.lend_to_write(ours) } -> Loan<double>;
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
