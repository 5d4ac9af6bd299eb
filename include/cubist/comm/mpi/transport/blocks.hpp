// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// The buffers of one rank's collective call, as bytes: a block, or a piece of `count` elements for
// each rank. A rank's share of a block is the part that it adds in an all_reduce.

#include <cstddef>
#include <cstring>
#include <span>

#include "cubist/comm/erased_call.hpp"
#include "cubist/comm/reduction.hpp"

namespace cubist::CUBIST_ABI::detail
{

/// @pre out.size() <= in.size()
inline void copy_bytes(ConstBytes in, Bytes out)
{
  if (!out.empty() && out.data() != in.data()) std::memcpy(out.data(), in.data(), out.size());
}

struct MpiBlocks
{
  ErasedCall call;
  int ranks = 1;  // those that take part in the call

  /// The size of a block, or of one rank's piece, in bytes.
  [[nodiscard]] std::size_t bytes() const { return call.bytes(); }

  [[nodiscard]] ConstBytes send_block() const { return {call.send, bytes()}; }
  [[nodiscard]] Bytes receive_block() const { return {call.recv, bytes()}; }

  [[nodiscard]] ConstBytes send_piece(int rank) const
  {
    return {call.send + offset(rank), bytes()};
  }
  [[nodiscard]] Bytes receive_piece(int rank) const { return {call.recv + offset(rank), bytes()}; }

  [[nodiscard]] ConstBytes send_share(int rank) const { return share(call.send, rank); }
  [[nodiscard]] Bytes receive_share(int rank) const { return share(call.recv, rank); }

  [[nodiscard]] std::size_t offset(int rank) const
  {
    return static_cast<std::size_t>(rank) * bytes();
  }

  template <class Byte>
  [[nodiscard]] std::span<Byte> share(Byte* data, int rank) const
  {
    const auto s = share_of(rank, ranks, call.count);
    return {data + s.offset * call.element_size, s.count * call.element_size};
  }
};

}  // namespace cubist::CUBIST_ABI::detail
