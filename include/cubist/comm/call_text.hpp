// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Calls and ranks as text, for messages: "all_reduce of 4 double by sum", "{0, 1}".

#include <cstddef>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"

namespace cubist::detail
{

/// "reduce of 4 double by sum with root 1"
[[nodiscard]] inline std::string call_text(Collective c, std::size_t count,
                                           const std::string& element, ReduceOp op, int root)
{
  std::string t = to_string(c);
  if (c == Collective::barrier) return t;
  t += " of " + std::to_string(count) + " " + element;
  if (reduces(c)) t += std::string{" by "} + to_string(op);
  if (has_root(c)) t += " with root " + std::to_string(root);
  return t;
}

/// "{0, 1}"; only the first 16 ranks are listed.
[[nodiscard]] inline std::string rank_list(const std::vector<int>& ranks)
{
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < 16; ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return "{" + list + (ranks.size() > 16 ? ", …}" : "}");
}

}  // namespace cubist::detail
