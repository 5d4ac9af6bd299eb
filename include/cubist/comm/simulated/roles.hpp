// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Which ranks of a collective only send, and which only receive, by the algorithms of comm/mpi:
//
//                    only sends              only receives
//   broadcast        the root                the last of the chain, which is the rank before it
//   reduce           the rank after the root the root
//   scatter          the root                the others
//   gather           all but the root        the root
//   send             the sender              the receiver
//
// In all other collectives, each rank does both.

#include "cubist/comm/call.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @param position a rank's position in the communicator; in a message, 0 is the sender, 1 the
/// receiver
[[nodiscard]] inline bool only_sends(CallKind kind, int root, int ranks, int position)
{
  switch (kind)
  {
  case CallKind::broadcast:
  case CallKind::scatter:
    return position == root;
  case CallKind::reduce:
    return position == (root + 1) % ranks;
  case CallKind::gather:
    return position != root;
  case CallKind::send:
    return position == 0;
  default:
    return false;
  }
}

[[nodiscard]] inline bool only_receives(CallKind kind, int root, int ranks, int position)
{
  switch (kind)
  {
  case CallKind::broadcast:
    return (position + 1) % ranks == root;
  case CallKind::scatter:
    return position != root;
  case CallKind::reduce:
  case CallKind::gather:
    return position == root;
  case CallKind::send:
    return position == 1;
  default:
    return false;
  }
}

}  // namespace cubist::CUBIST_ABI::detail
