// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The failures that all ranks of a process report after one of them has failed, and their messages.

#include <string>
#include <vector>

#include "cubist/comm/call_text.hpp"
#include "cubist/core/error.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// Why no rank can continue.
enum class GroupFailure
{
  none,
  peer_failed,
  mismatch,
  deadlock,
  ended
};

/// The message of GroupFailure::ended.
inline constexpr const char* ended_text =
    "got a call on ranks whose launch has returned, so none of them can take part; use "
    "communicators, meshes and their matrices inside the body of launch";

/// Throws the error of a failure, unless it is GroupFailure::none.
/// @throws PeerFailed, CollectiveMismatch, DeadlockError or, after the launch, CommunicationError
inline void raise_failure(GroupFailure failure, const std::string& message)
{
  switch (failure)
  {
  case GroupFailure::none:
    return;
  case GroupFailure::peer_failed:
    throw PeerFailed{message};
  case GroupFailure::mismatch:
    throw CollectiveMismatch{message};
  case GroupFailure::deadlock:
    throw DeadlockError{message};
  case GroupFailure::ended:
    throw CommunicationError{message};
  }
}

/// Returns the message of a deadlock, or an empty string if all ranks have returned. It lists up to
/// 16 calls in which ranks wait, and up to 16 ranks that have returned.
/// @param wait_of wait_of(rank) points to what the rank waits for, which has describe(); null if
/// the rank has returned
template <class WaitOf>
[[nodiscard]] std::string deadlock_text(int ranks, WaitOf wait_of)
{
  constexpr int most = 16;
  std::string waits;
  int waiting = 0;
  std::vector<int> returned;
  for (int r = 0; r < ranks; ++r)
    if (const auto* wait = wait_of(r); wait == nullptr)
      returned.push_back(r);
    else if (++waiting <= most)
      waits += "; rank " + std::to_string(r) + " waits in " + wait->describe();
  if (waiting == 0) return "";
  if (waiting > most) waits += "; and " + std::to_string(waiting - most) + " more ranks wait";
  if (!returned.empty()) waits += "; ranks " + rank_list(returned) + " have returned";
  return "every live rank waits for another, so none can continue" + waits +
         "; let all ranks of a communicator make the same calls in the same order, and match every "
         "send with a receive";
}

}  // namespace cubist::CUBIST_ABI::detail
