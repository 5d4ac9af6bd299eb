// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The stages of a call between ranks that share memory. No data is sent: each rank posts the
// addresses of its buffers, and its peers copy or combine straight from them.
//
// A stage waits for a gate (all ranks have posted, the source has posted, all pieces are reduced,
// all ranks have read), does its rank's share of the work, and signals another gate:
//
//   broadcast       source posted -> copy -> done             the source waits for done
//   all_gather      all posted -> copy all -> done -> all done
//   reduce_scatter  all posted -> reduce my piece -> done -> all done
//   all_reduce      all posted -> reduce piece r in place -> reduced -> copy the others' pieces ->
//                   done -> all done
//   expose          all posted -> read, until the rank closes its window -> done -> all done
//
// In a small call (small_call.hpp), a rank copies its block into the call object when it posts the
// call. Its peers then read the copy, and the rank waits once:
//
//   all_gather      all posted -> copy all
//   reduce_scatter  all posted -> reduce my piece
//   all_reduce      all posted -> reduce everything
//   expose          all posted; peers only read

#include <cstdint>
#include <span>

#include "cubist/comm/call.hpp"

namespace cubist::CUBIST_ABI::detail
{

enum class Gate : std::uint8_t
{
  source,
  posted,
  reduced,
  done,
  none
};

enum class CopyWork : std::uint8_t
{
  none,
  copy_source,
  copy_piece,
  gather_pieces,
  exchange_pieces,
  reduce_piece,
  copy_reduced,
  reduce_all,
  read_peers  // until the window is closed
};

struct Stage
{
  Gate waits_for;
  CopyWork work = CopyWork::none;
  Gate signals = Gate::none;
};

/// Returns the stages of one rank in a call into which the ranks have copied their blocks.
/// @pre the call is small (small_call.hpp)
inline std::span<const Stage> stages_of_copies(CallKind c)
{
  static constexpr Stage gather[] = {{Gate::posted, CopyWork::gather_pieces}};
  static constexpr Stage exchange[] = {{Gate::posted, CopyWork::exchange_pieces}};
  static constexpr Stage reduce_piece[] = {{Gate::posted, CopyWork::reduce_piece}};
  static constexpr Stage reduce_all[] = {{Gate::posted, CopyWork::reduce_all}};
  static constexpr Stage expose[] = {{Gate::posted}};
  if (c == CallKind::expose) return expose;
  if (c == CallKind::all_gather) return gather;
  if (c == CallKind::all_to_all) return exchange;
  return c == CallKind::reduce_scatter ? reduce_piece : reduce_all;
}

/// Returns the stages of one rank; `source` says whether it is the root, or the sender of a
/// message.
inline std::span<const Stage> stages(CallKind c, bool source)
{
  static constexpr Stage wait_done[] = {{Gate::done}};
  static constexpr Stage barrier[] = {{Gate::posted}};
  static constexpr Stage copy[] = {{Gate::source, CopyWork::copy_source, Gate::done}};
  static constexpr Stage scatter_root[] = {{Gate::source, CopyWork::copy_piece}, {Gate::done}};
  static constexpr Stage scatter[] = {{Gate::source, CopyWork::copy_piece, Gate::done}};
  static constexpr Stage gather_root[] = {{Gate::posted, CopyWork::gather_pieces, Gate::done}};
  static constexpr Stage all_gather[] = {{Gate::posted, CopyWork::gather_pieces, Gate::done},
                                         {Gate::done}};
  static constexpr Stage all_to_all[] = {{Gate::posted, CopyWork::exchange_pieces, Gate::done},
                                         {Gate::done}};
  static constexpr Stage reduce[] = {{Gate::posted, CopyWork::reduce_piece, Gate::done},
                                     {Gate::done}};
  static constexpr Stage all_reduce[] = {{Gate::posted, CopyWork::reduce_piece, Gate::reduced},
                                         {Gate::reduced, CopyWork::copy_reduced, Gate::done},
                                         {Gate::done}};
  static constexpr Stage expose[] = {{Gate::posted, CopyWork::read_peers}, {Gate::done}};
  switch (c)
  {
  case CallKind::barrier:
    return barrier;
  case CallKind::broadcast:
  case CallKind::send:
  case CallKind::receive:
    return source ? std::span{wait_done} : std::span<const Stage>{copy};
  case CallKind::scatter:
    return source ? std::span<const Stage>{scatter_root} : scatter;
  case CallKind::gather:
    return source ? std::span<const Stage>{gather_root} : wait_done;
  case CallKind::all_gather:
    return all_gather;
  case CallKind::all_to_all:
    return all_to_all;
  case CallKind::reduce:
  case CallKind::reduce_scatter:
    return reduce;
  case CallKind::all_reduce:
    return all_reduce;
  case CallKind::expose:
    return expose;
  }
  return {};
}

}  // namespace cubist::CUBIST_ABI::detail
