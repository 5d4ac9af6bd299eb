// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A call whose elements are bytes. Communicators execute such calls, so that their code is compiled
// once and not for each element type.

#include <cstddef>
#include <span>

#include "cubist/comm/call.hpp"
#include "cubist/comm/call_text.hpp"
#include "cubist/comm/reduction.hpp"
#include "cubist/core/scalar.hpp"

namespace cubist::CUBIST_ABI::detail
{

using ConstBytes = std::span<const std::byte>;
using Bytes = std::span<std::byte>;

/// Combines elements [first, first + count) of the inputs, in the order of the inputs. Each
/// function is for one element type.
using CombineBytes = void (*)(ReduceOp op, std::span<const std::byte* const> inputs,
                              std::size_t first, std::size_t count, std::byte* out);

template <Element T>
void combine_bytes(ReduceOp op, std::span<const std::byte* const> inputs, std::size_t first,
                   std::size_t count, std::byte* out)
{
  const auto in = [&](std::size_t i) { return reinterpret_cast<const T*>(inputs[i]) + first; };
  combine(op, inputs.size(), in, count, reinterpret_cast<T*>(out));
}

struct ErasedCall : CallSignature
{
  ErasedCall() = default;
  template <Element T>
  ErasedCall(const Call<T>& call)  // NOLINT: implicit, as a parameter's type
      : CallSignature{CallSignature::of(call)},
        send{reinterpret_cast<const std::byte*>(call.send.data())},
        send_bytes{call.send.size_bytes()},
        recv{reinterpret_cast<std::byte*>(call.recv.data())},
        element_size{sizeof(T)},
        combine{&combine_bytes<T>}
  {
  }

  /// The size of a block, or of one rank's piece, in bytes.
  [[nodiscard]] std::size_t bytes() const { return count * element_size; }

  const std::byte* send = nullptr;
  std::size_t send_bytes = 0;
  std::byte* recv = nullptr;
  std::size_t element_size = 1;
  CombineBytes combine = nullptr;
};

}  // namespace cubist::CUBIST_ABI::detail
