// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// RMA windows, as MPI-3 calls them: ranks that share memory expose blocks, and read their peers'
// blocks in place instead of receiving copies.
//
//   auto window = world.expose(mine);   every rank exposes a block of the same size
//   window[r]                           the block of rank r; waits until all have exposed
//   window.close();                     says that this rank has read what it needs; does not wait
//   window.wait();                      waits until no rank reads this rank's block
//
// A block of a few KiB that peers only read is copied (small_call.hpp), so `wait` waits only until
// all ranks have exposed theirs. A rank that closes a window without reading waits once, in `wait`.
//
// world.expose(mine, size) takes the size of the longest block; others may be shorter, or empty,
// and no rank may read beyond their ends. Peers may also write to a block that
// world.expose_writable(mine) exposes. No two ranks may write to the same element, and no rank may
// write to an element that another one reads.
//
// Until `wait` returns, a rank must not write to its exposed block in any other way. A window that
// is destroyed before it has been waited for, for example by an exception, is revoked. Its rank
// waits until no rank reads its block, and the next wait of a peer throws PeerFailed, unless it has
// a copy.

#include <concepts>
#include <span>

#include "cubist/comm/communicator.hpp"

namespace cubist::CUBIST_ABI
{

// clang-format off
template <class W, class T>
concept Window = std::move_constructible<W> && requires(W window, int rank) {
  { window[rank] } -> std::same_as<std::span<T>>;
  window.close();
  window.wait();
};

/// A communicator whose ranks may share memory.
/// @throws PeerFailed, CollectiveMismatch, DeadlockError, TimeLimitError, CommunicationError from
/// every call
template <class C>
concept ExposesMemory = Communicator<C> && requires(C c, const C& k, std::span<const double> mine,
                                                    std::span<double> ours) {
  { k.exposes() } -> std::same_as<bool>;       // whether all its ranks share memory
  { k.cores() } -> std::same_as<int>;          // cores that its ranks share; @pre exposes()
  { c.expose(mine) } -> Window<const double>;  // @pre exposes()
  { c.expose(mine, mine.size()) } -> Window<const double>;
  { c.expose_writable(ours) } -> Window<double>;
};
// clang-format on

/// A communicator that can move its ranks to other cores of a machine. A rank that begins to
/// compute calls spread_over_cores(workers), and says how many ranks do so: worker i is rank i *
/// size / workers. It moves if another core has fewer of the workers, and waits for no other rank.
template <class C>
concept SpreadsOverCores = requires(const C& k)
{
  k.spread_over_cores(1);
};

/// Whether windows of communicator `C` expose all memory in place. If not, memory that an engine
/// did not allocate is copied to memory that peers can access, and back if they may write to it.
template <class C>
inline constexpr bool exposes_in_place = ExposesMemory<C>;
/// A decorator exposes whatever the communicator that it decorates exposes.
template <class D>
requires requires { typename D::Decorated; }
inline constexpr bool exposes_in_place<D> = exposes_in_place<typename D::Decorated>;

/// Whether the ranks of a communicator can expose memory.
template <Communicator C>
[[nodiscard]] bool can_expose([[maybe_unused]] const C& communicator)
{
  if constexpr (ExposesMemory<C>)
    return communicator.exposes();
  else
    return false;
}

}  // namespace cubist::CUBIST_ABI
