// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// One rank's call as data. A communicator's `start` executes it, decorators inspect it, and error
// messages print it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>

#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI
{

/// What a call does: a collective or a message, as in MPI, or the opening of a window.
enum class CallKind : std::uint8_t
{
  barrier,         ///< no data
  broadcast,       ///< the root's data, to all ranks
  reduce,          ///< the reduction of all ranks' data, to the root
  all_reduce,      ///< the reduction of all ranks' data, to all ranks
  all_gather,      ///< every rank's piece, to all ranks
  reduce_scatter,  ///< the reduction of all ranks' data, a piece of it to each rank
  all_to_all,      ///< a piece from each rank to each rank
  gather,          ///< every rank's piece, to the root
  scatter,         ///< the root's data, a piece of it to each rank
  send,            ///< a message to one rank
  receive,         ///< a message from one rank
  expose,          ///< every rank's block, to all ranks as a window
};

/// The number of kinds of calls.
inline constexpr std::size_t call_kind_count = 12;

/// The former name of CallKind.
using Collective [[deprecated("use CallKind")]] = CallKind;
/// The former name of call_kind_count.
[[deprecated("use call_kind_count")]] inline constexpr std::size_t collective_count =
    call_kind_count;

/// The name of a kind, as error messages show it.
[[nodiscard]] constexpr const char* to_string(CallKind c)
{
  constexpr const char* names[call_kind_count] = {
      "barrier",    "broadcast", "reduce",  "all_reduce", "all_gather", "reduce_scatter",
      "all_to_all", "gather",    "scatter", "send",       "receive",    "expose"};
  return names[static_cast<std::size_t>(c)];
}

/// The operation of a reduction; reduction.hpp defines the order of the operands.
enum class ReduceOp : std::uint8_t
{
  sum,  ///< x + y
  min,  ///< the smaller; NaN if any input is NaN, but NCCL may ignore NaNs
  max,  ///< the larger; treats NaNs as min does
};

/// The name of an operation, as error messages show it.
[[nodiscard]] constexpr const char* to_string(ReduceOp op)
{
  constexpr const char* names[] = {"sum", "min", "max"};
  return names[static_cast<std::size_t>(op)];
}

/// The arguments of one rank's call. `count`, the number of elements in one piece, is the same on
/// every participant. The table gives the sizes of `send` and `recv`; ranks other than the root
/// ignore a buffer marked (r).
///
///   kind            send               recv               peer
///   broadcast       count (root)       count (others)     root
///   reduce          count              count (root)       root
///   all_reduce      recv               count              -
///   all_gather      count              count x ranks      -
///   reduce_scatter  count x ranks      count              -
///   all_to_all      count x ranks      count x ranks      -
///   gather          count              count x ranks (r)  root
///   scatter         count x ranks (r)  count              root
///   send            count              -                  destination
///   receive         -                  count              source
///   expose          count              -                  -
template <Element T>
struct Call
{
  CallKind kind = CallKind::barrier;  ///< what the call does
  std::span<const T> send = {};       ///< what this rank sends
  std::span<T> recv = {};             ///< where this rank receives
  std::size_t count = 0;              ///< elements of one rank's piece
  int peer = 0;                       ///< the root, or the other rank of a message
  ReduceOp op = ReduceOp::sum;        ///< how elements are combined
  bool writable = false;              ///< whether peers may write to an exposed block
};

/// Returns the call that opens a window on `mine`. The longest block of any rank has `size`
/// elements.
/// @tparam T const, unless peers may write to the blocks
template <class T>
[[nodiscard]] Call<std::remove_const_t<T>> expose_call(std::span<T> mine, std::size_t size)
{
  return {.kind = CallKind::expose, .send = mine, .count = size, .writable = !std::is_const_v<T>};
}

/// Whether the collective has a root.
[[nodiscard]] constexpr bool has_root(CallKind c)
{
  return c == CallKind::broadcast || c == CallKind::reduce || c == CallKind::gather ||
         c == CallKind::scatter;
}

/// Whether the call combines elements of several ranks.
[[nodiscard]] constexpr bool reduces(CallKind c)
{
  return c == CallKind::reduce || c == CallKind::all_reduce || c == CallKind::reduce_scatter;
}

/// Whether the call is a message between two ranks.
[[nodiscard]] constexpr bool is_message(CallKind c)
{
  return c == CallKind::send || c == CallKind::receive;
}

/// Whether `rank` can receive without overwriting what it sends, because its buffers are disjoint
/// or its own piece is in place.
template <Element T>
[[nodiscard]] bool buffers_fit(const Call<T>& call, int rank)
{
  const std::less_equal<const T*> is_before;
  const T* send = call.send.data();
  const T* recv = call.recv.data();
  if (call.send.empty() || call.recv.empty() || is_before(send + call.send.size(), recv) ||
      is_before(recv + call.recv.size(), send))
    return true;
  const std::size_t mine = static_cast<std::size_t>(rank) * call.count;
  const bool root = call.peer == rank;
  switch (call.kind)
  {
  case CallKind::reduce:
  case CallKind::all_reduce:
    return send == recv;
  case CallKind::all_gather:
    return send == recv + mine;
  case CallKind::reduce_scatter:
    return recv == send + mine;
  case CallKind::gather:
    return !root || send == recv + mine;
  case CallKind::scatter:
    return !root || recv == send + mine;
  default:
    return false;
  }
}

}  // namespace cubist::CUBIST_ABI
