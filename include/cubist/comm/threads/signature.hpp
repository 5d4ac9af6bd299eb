// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What all ranks of a call between threads must agree on.

#include <cstddef>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

struct ThreadCall;

/// Combines elements [first, first + count) of all ranks of a call, in the order of reduction.hpp.
template <Element T>
void combine_members(const ThreadCall& call, std::size_t first, std::size_t count, std::byte* out);

struct Signature : CallSignature
{
  std::size_t element_size = 0;
  void (*reduce)(const ThreadCall&, std::size_t first, std::size_t count, std::byte* out) = nullptr;

  friend bool operator==(const Signature&, const Signature&) = default;
};

/// Both ends of a message have the signature of the send.
template <Element T>
[[nodiscard]] Signature signature_of(const Call<T>& call)
{
  Signature s{CallSignature::of(call), sizeof(T), &combine_members<T>};
  if (s.collective == Collective::receive) s.collective = Collective::send;
  if (!has_root(s.collective)) s.peer = 0;
  return s;
}

}  // namespace cubist::CUBIST_ABI::detail
