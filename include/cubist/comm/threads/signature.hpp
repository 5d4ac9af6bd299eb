// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What all ranks of a call between threads must agree on, and its text for messages.

#include <cstddef>
#include <string>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::detail
{

struct ThreadCall;

/// Combines elements [first, first + count) of all ranks of a call, in the order of reduction.hpp
/// for rank `keeper`.
template <Element T>
void combine_members(const ThreadCall& call, std::size_t keeper, std::size_t first,
                     std::size_t count, std::byte* out);

struct Signature
{
  Collective collective{};
  std::size_t count = 0;
  std::size_t element_size = 0;
  std::string (*element)() = nullptr;
  int root = 0;
  ReduceOp op{};
  void (*reduce)(const ThreadCall&, std::size_t keeper, std::size_t first, std::size_t count,
                 std::byte* out) = nullptr;

  friend bool operator==(const Signature&, const Signature&) = default;
};

/// Both ends of a message have the signature of the send.
template <Element T>
[[nodiscard]] Signature signature_of(const Call<T>& c)
{
  return {c.collective == Collective::receive ? Collective::send : c.collective,
          c.count,
          sizeof(T),
          &element_name<T>,
          has_root(c.collective) ? c.peer : 0,
          c.op,
          &combine_members<T>};
}

/// "all_reduce of 4 double by sum"
[[nodiscard]] inline std::string text(const Signature& s)
{
  return call_text(s.collective, s.count, s.element(), s.op, s.root);
}

}  // namespace cubist::detail
