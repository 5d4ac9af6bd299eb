// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call of threads in words, for messages: "all_reduce of 4 double by sum on ranks {0, 1}".

#include <cstddef>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/comm/thread_call.hpp"

namespace cubist::detail
{

/// "all_reduce of 4 double by sum"
[[nodiscard]] inline std::string text(const Signature& s)
{
  std::string t = to_string(s.collective);
  if (s.collective == Collective::barrier) return t;
  t += " of " + std::to_string(s.count) + " " + s.element();
  if (reduces(s.collective)) t += std::string{" by "} + to_string(s.op);
  if (has_root(s.collective)) t += " with root " + std::to_string(s.root);
  return t;
}

/// " on ranks {0, 1}", the first 16 of them; " from rank 0 to rank 1" for a message.
[[nodiscard]] inline std::string where(const ThreadCall& call, const std::vector<int>& ranks)
{
  if (call.from >= 0)
    return " from rank " + std::to_string(call.members[0].world_rank) + " to rank " +
           std::to_string(call.members[1].world_rank);
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < 16; ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return " on ranks {" + list + (ranks.size() > 16 ? ", …}" : "}");
}

}  // namespace cubist::detail
