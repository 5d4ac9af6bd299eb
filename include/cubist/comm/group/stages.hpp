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

#include <cstddef>
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

/// The stages of each rank in a call.
struct CallStages
{
  std::span<const Stage> others;
  std::span<const Stage> source;  // of the root, or of the sender of a message
  std::span<const Stage> copies;  // of all ranks if they have copied their blocks (small_call.hpp)
};

[[nodiscard]] inline const CallStages& stages(CallKind c)
{
  static constexpr Stage wait_done[] = {{Gate::done}};
  static constexpr Stage wait_posted[] = {{Gate::posted}};
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
  static constexpr Stage gather_copies[] = {{Gate::posted, CopyWork::gather_pieces}};
  static constexpr Stage exchange_copies[] = {{Gate::posted, CopyWork::exchange_pieces}};
  static constexpr Stage reduce_piece[] = {{Gate::posted, CopyWork::reduce_piece}};
  static constexpr Stage reduce_all[] = {{Gate::posted, CopyWork::reduce_all}};
  static constexpr CallStages all[call_kind_count] = {
      {wait_posted, wait_posted, {}},             // barrier
      {copy, wait_done, {}},                      // broadcast
      {reduce, reduce, {}},                       // reduce
      {all_reduce, all_reduce, reduce_all},       // all_reduce
      {all_gather, all_gather, gather_copies},    // all_gather
      {reduce, reduce, reduce_piece},             // reduce_scatter
      {all_to_all, all_to_all, exchange_copies},  // all_to_all
      {wait_done, gather_root, {}},               // gather
      {scatter, scatter_root, {}},                // scatter
      {copy, wait_done, {}},                      // send
      {copy, wait_done, {}},                      // receive
      {expose, expose, wait_posted}};             // expose
  return all[static_cast<std::size_t>(c)];
}

}  // namespace cubist::CUBIST_ABI::detail
