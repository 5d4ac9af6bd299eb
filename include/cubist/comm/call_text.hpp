// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Formats calls and ranks for error messages: "all_reduce of 4 double by sum", "{0, 1}".

#include <cstddef>
#include <string>
#include <vector>

#include "cubist/comm/call.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// A call without its buffers.
struct CallSignature
{
  CallKind kind{};
  ReduceOp op{};
  int peer = 0;  // the root, or the other end of a message
  std::size_t count = 0;
  std::string (*element)() = nullptr;
  bool writable = false;

  template <Element T>
  [[nodiscard]] static CallSignature of(const Call<T>& call)
  {
    return {call.kind, call.op, call.peer, call.count, &element_name<T>, call.writable};
  }
  friend bool operator==(const CallSignature&, const CallSignature&) = default;
};

/// Returns a call as "reduce of 4 double by sum with root 1".
[[nodiscard]] inline std::string text(const CallSignature& s)
{
  std::string t = to_string(s.kind);
  if (s.kind == CallKind::barrier) return t;
  t += " of " + std::to_string(s.count) + " " + s.element();
  if (reduces(s.kind)) t += std::string{" by "} + to_string(s.op);
  if (s.writable) t += " to write";
  if (has_root(s.kind)) t += " with root " + std::to_string(s.peer);
  return t;
}

/// Lists ranks as "{0, 1}", at most the first 16.
[[nodiscard]] inline std::string rank_list(const std::vector<int>& ranks)
{
  std::string list;
  for (std::size_t i = 0; i < ranks.size() && i < 16; ++i)
    list += (i == 0 ? "" : ", ") + std::to_string(ranks[i]);
  return "{" + list + (ranks.size() > 16 ? ", …}" : "}");
}

}  // namespace cubist::CUBIST_ABI::detail
