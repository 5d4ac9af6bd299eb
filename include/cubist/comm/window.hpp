// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Ranks that can read each other's memory expose blocks instead of sending them.
//
//   auto window = world.expose(mine);   every rank exposes a block of the same size
//   window[r]                         the block of rank r, where it lies; waits until all have lent
//   window.close();                   this rank reads no more; it does not wait
//   window.wait();                    until no rank reads this rank's block
//
// With their size, world.expose(mine, size), some ranks may expose blocks, and the others empty
// ones that nobody asks for. What is lent by world.expose_writable(mine) others may write to: no
// two ranks the same element, and nobody what another one reads.
//
// In between nobody writes to what else it has lent. A window that is dropped before it has been
// waited for, as by an exception, is revoked: its rank stays until nobody reads its block any more,
// and peers get PeerFailed from what they wait for next.

#include <concepts>
#include <span>

#include "cubist/comm/communicator.hpp"

namespace cubist
{

// clang-format off
template <class L, class T>
concept Window = std::move_constructible<L> && requires(L window, int rank) {
  { window[rank] } -> std::same_as<std::span<T>>;
  window.close();
  window.wait();
};

/// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError, CommunicationError from
/// every call
template <class C>
concept ExposesMemory = Communicator<C> && requires(C c, const C& k, std::span<const double> mine,
                                             std::span<double> ours) {
  { k.exposes() } -> std::same_as<bool>;  // whether all its ranks are where memory is shared
  { k.cores() } -> std::same_as<int>;   // on which its ranks run, all together; @pre exposes()
  { c.expose(mine) } -> Window<const double>;  // @pre exposes()
  { c.expose(mine, mine.size()) } -> Window<const double>;
  { c.expose_writable(ours) } -> Window<double>;
};
// clang-format on

/// Whether the ranks of a communicator can expose.
template <Communicator C>
[[nodiscard]] bool can_expose([[maybe_unused]] const C& communicator)
{
  if constexpr (ExposesMemory<C>)
    return communicator.exposes();
  else
    return false;
}

}  // namespace cubist
