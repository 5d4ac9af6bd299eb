// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call of threads in words, for messages: "all_reduce of 4 double by sum on ranks {0, 1}".

#include <string>
#include <vector>

#include "cubist/comm/call_text.hpp"
#include "cubist/comm/threads/call.hpp"

namespace cubist::detail
{

/// "all_reduce of 4 double by sum"
[[nodiscard]] inline std::string text(const Signature& s)
{
  return call_text(s.collective, s.count, s.element(), s.op, s.root);
}

/// " on ranks {0, 1}", the first 16 of them; " from rank 0 to rank 1" for a message.
[[nodiscard]] inline std::string where(const ThreadCall& call, const std::vector<int>& ranks)
{
  if (call.from >= 0)
    return " from rank " + std::to_string(call.members[0].world_rank) + " to rank " +
           std::to_string(call.members[1].world_rank);
  return " on ranks " + rank_list(ranks);
}

}  // namespace cubist::detail
